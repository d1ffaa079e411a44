"""Exchange and routing key as one topic, `$exchange/<name>/<key>`: how every protocol publishes to exchanges, and what
is stored as the topic of such a message.

The name is percent-encoded. In the key `.` and `/` change places, so that words of a key are levels of a topic. What no
topic can have (`+`, `#`, NUL, bytes that are no UTF-8) is percent-encoded in a key, and `%` where it would be taken for
that: every exchange and key has one topic, and the other way round."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from penstock.core.errors import InvalidArgument
from penstock.kernels.topics import check_topic

EXCHANGE_PREFIX = b"$exchange/"
DEFAULT_EXCHANGE = ""
TOPIC_EXCHANGE = "amq.topic"

# Names have at most 255 bytes, each of which may be written as three.
_KNOWN_NAMES, _KNOWN_NAME_BYTES = 1024, 765

_SWAP = bytes.maketrans(b"./", b"/.")
_PLAIN = re.compile(rb"[^%+#\x00\x80-\xff]*")
_ESCAPED = re.compile(rb"%(?=25|2B|23|00|[89A-F][0-9A-F])|[+#\x00]")
_ESCAPE = re.compile(rb"%(25|2B|23|00|[89A-F][0-9A-F])")


class ExchangeAddress(NamedTuple):
    exchange: str
    key: bytes


def swapped(key: bytes) -> bytes:
    """A key as a topic, or a topic as a key."""
    return key.translate(_SWAP)


def exchange_topic(exchange: str, key: bytes) -> bytes:
    """Without a key there is nothing behind the name, not even a `/`."""
    name = EXCHANGE_PREFIX + quote(exchange, safe="").encode()
    return name + b"/" + _escaped(swapped(key)) if key else name


def exchange_address(topic: bytes) -> ExchangeAddress | None:
    """None for other topics. InvalidArgument for a name that is not written as exchange_topic() does: rules are about
    topics, and one exchange must not have two."""
    if not topic.startswith(EXCHANGE_PREFIX):
        return None
    written, slash, key = topic[len(EXCHANGE_PREFIX) :].partition(b"/")
    if slash and not key:
        raise InvalidArgument(f"{topic[:300]!r} ends with /: leave it out where there is no key")
    name = _known_name(written) if len(written) <= _KNOWN_NAME_BYTES else _name_of(written)
    return ExchangeAddress(name, swapped(_ESCAPE.sub(_byte, key) if b"%" in key else key))


def _name_of(written: bytes) -> str:
    topic = EXCHANGE_PREFIX + written
    try:
        name = unquote_to_bytes(written).decode()
    except UnicodeDecodeError:
        raise InvalidArgument(f"{topic[:300]!r} names no exchange: its name is not UTF-8") from None
    if quote(name, safe="").encode() != written:
        wanted = (EXCHANGE_PREFIX + quote(name, safe="").encode()).decode()
        raise InvalidArgument(f"{topic[:300]!r} names an exchange in another way than {wanted[:300]!r}: write it so")
    return name


_known_name = lru_cache(_KNOWN_NAMES)(_name_of)


def topic_of_key(key: bytes) -> bytes | None:
    """The topic that a key of `amq.topic` stands for; None for keys that nobody could publish to: no topic has
    wildcards in it, and those that begin with `$` are not of this space."""
    topic = swapped(key)
    if topic.startswith(b"$"):
        return None
    try:
        check_topic(topic)
    except InvalidArgument:
        return None
    return topic


def filter_of_key(key: str) -> str | None:
    """The filter of topics that a binding of `amq.topic` stands for; None for what only keys can have: a `#` that is
    not the last word, no words at all, or words that would be wildcards of topics."""
    if not key or key.startswith("$") or "+" in key or "\0" in key:
        return None
    words = key.split(".")
    if any("#" in word for word in words[:-1]) or ("#" in words[-1] and words[-1] != "#"):
        return None
    return "/".join(["+" if word == "*" else word.replace("/", ".") for word in words])


def key_of_filter(topic_filter: str) -> str | None:
    """The key of the binding to `amq.topic` that a queue's filter is; None for those below `$`, and for filters with
    words that would be wildcards of keys."""
    if topic_filter.startswith("$"):
        return None
    levels = topic_filter.split("/")
    if "*" in levels:
        return None
    return ".".join(["*" if level == "+" else level.replace(".", "/") for level in levels])


def _escaped(key: bytes) -> bytes:
    if _PLAIN.fullmatch(key):
        return key
    try:
        key.decode()
    except UnicodeDecodeError:
        text = key.decode("utf-8", "surrogateescape")
        key = b"".join([_bytes_of(character) for character in text])
        return re.sub(rb"[+#\x00]", _escape, key)
    return _ESCAPED.sub(_escape, key)


def _bytes_of(character: str) -> bytes:
    """Of a text that was not UTF-8 throughout."""
    data = character.encode("utf-8", "surrogateescape")
    if "\udc80" <= character <= "\udcff":
        return b"%%%02X" % data[0]
    return b"%25" if data == b"%" else data


def _escape(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found[0][0]


def _byte(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)])


def published_with(topic: bytes, queue: str) -> ExchangeAddress:
    """The exchange and the key that a message in that queue was published with, whatever the protocol."""
    try:
        if (address := exchange_address(topic)) is not None:
            return address
    except InvalidArgument:
        return ExchangeAddress(DEFAULT_EXCHANGE, topic)
    if not topic:
        return ExchangeAddress(DEFAULT_EXCHANGE, queue.encode())
    if topic.startswith(b"$"):
        return ExchangeAddress(DEFAULT_EXCHANGE, topic.removeprefix(b"$queue/"))
    return ExchangeAddress(TOPIC_EXCHANGE, swapped(topic))
