"""Strings, topic names and topic filters as MQTT allows them. What a peer sent wrong is MalformedPacket, what this side
asks to send is InvalidArgument or TooLarge."""

from __future__ import annotations

from typing import NamedTuple

from penstock.codecs.mqtt.errors import MalformedPacket
from penstock.codecs.mqtt.kinds import MAX_STRING_BYTES
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import InvalidArgument, TooLarge
from penstock.kernels import topics

SHARE_PREFIX = "$share/"


class SharedFilter(NamedTuple):
    group: str
    filter: str


def text_of(raw: bytes, what: str) -> str:
    """Control characters and noncharacters pass: a receiver may refuse them, and standard clients send them. A byte
    order mark stays."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as fault:
        raise MalformedPacket(f"{what} is not UTF-8 at byte {fault.start}: {fault.reason}") from None
    if "\0" in text:
        raise MalformedPacket(f"{what} contains NUL")
    return text


def bytes_of(text: str, what: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError as fault:
        raise InvalidArgument(
            f"{what} has a lone surrogate at character {fault.start}: send it as text that UTF-8 can say"
        ) from None
    if len(raw) > MAX_STRING_BYTES:
        raise TooLarge(what, len(raw), MAX_STRING_BYTES)
    if "\0" in text:
        raise InvalidArgument(f"{what} contains NUL, which MQTT has no way to send: leave it out")
    return raw


def check_received_topic(topic: str) -> None:
    try:
        topics.check_topic(topic.encode())
    except InvalidArgument as fault:
        raise MalformedPacket(str(fault), ReasonCode.TOPIC_NAME_INVALID) from None


def check_received_filter(filter: str) -> None:
    """A filter with more levels than the subscription tree takes is refused here too."""
    try:
        topics.check_filter(filter.encode())
        parse_shared(filter)
    except InvalidArgument as fault:
        raise MalformedPacket(str(fault), ReasonCode.TOPIC_FILTER_INVALID) from None


def check_topic(topic: str) -> None:
    topics.check_topic(bytes_of(topic, "a topic name"))


def check_filter(filter: str) -> None:
    topics.check_filter(bytes_of(filter, "a topic filter"))
    parse_shared(filter)


def parse_shared(filter: str) -> SharedFilter | None:
    """The two parts of `$share/<group>/<filter>`; None if the filter is not shared. InvalidArgument if it begins like
    one and is none."""
    if not filter.startswith(SHARE_PREFIX):
        return None
    group, slash, shared = filter[len(SHARE_PREFIX) :].partition("/")
    if not group or "+" in group or "#" in group:
        raise InvalidArgument(f"the group of a shared filter is a name without + and #: {filter!r}")
    if not slash or not shared:
        raise InvalidArgument(f"a shared filter is $share/<group>/<filter>, and here the filter is missing: {filter!r}")
    return SharedFilter(group, shared)
