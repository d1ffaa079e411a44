"""What the generator asks of a protocol: the same load in the words of each broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from bench.mqtt.link import Link
from bench.mqtt.ring import Ring

TOPICS = 10


class Acknowledged(NamedTuple):
    messages: int
    read_bytes: int


class Acks(Protocol):
    """Answers to a publisher."""

    def read(self, data: bytearray, stop: int) -> Acknowledged:
        """How many messages are acknowledged in data[:stop], and how far that was read. PeerFailed for a refusal."""
        ...


class Delivered(NamedTuple):
    payloads_at: Sequence[int]
    read_bytes: int
    answer: bytes | bytearray
    """what settles them"""


class Deliveries(Protocol):
    """Messages to a consumer."""

    def read(self, data: bytearray, stop: int) -> Delivered: ...

    def fence(self, link: Link) -> None:
        """Return when the server has read all that was sent before. The link is blocking then, and nothing is under
        way to it."""
        ...


@dataclass(frozen=True, slots=True)
class PublisherParts:
    link: Link
    ring: Ring
    acks: Acks


@dataclass(frozen=True, slots=True)
class ConsumerParts:
    link: Link
    deliveries: Deliveries


class Speech(Protocol):
    """A broker with one durable queue, spoken to in its protocol."""

    def publisher(self, number: int, window: int, is_mixed: bool = False) -> PublisherParts:
        """To topic `number`, or to all topics in turn. The answers come in the order of the messages."""
        ...

    def consumer(self, number: int, in_flight: int) -> ConsumerParts:
        """One of those who share the queue."""
        ...


def slots(window: int, topics: int = TOPICS) -> int:
    """Of a ring: no slot is sent again before its message is answered, sends are rarely cut at the ring's end, and each
    topic has as many as the others."""
    return -(-max(2 * window, 100) // topics) * topics


def first_place(publisher: int) -> int:
    """Of a publisher's ring: places of all publishers differ."""
    return publisher << 17
