"""Topic aliases: short numbers for topics, those that a client told and those that it was told. Topics are kept for
them as long as the connection lasts, out of the budget of names."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from penstock.codecs.mqtt.errors import ProtocolError
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.wire.budget import Budget

# Of the topics that one connection has aliases for, in one direction. A topic may have 64 KiB, and an alias is for
# those that come often.
MOST_BYTES = 128 << 10


class OutOfNames(ProtocolError):
    """Nothing is left of the budget of all."""


class HeardAliases:
    """Of one connection: the topics that its client told aliases for."""

    __slots__ = ("_budget", "_bytes", "_topics")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._topics: dict[int, bytes] = {}
        self._bytes = 0

    def topic(self, alias: int) -> bytes | None:
        return self._topics.get(alias)

    def hear(self, alias: int, topic: bytes) -> None:
        """From now on it stands for this topic. ProtocolError if that takes too much."""
        before = self._topics.get(alias)
        if before is topic:
            return
        more = len(topic) - len(before or b"")
        if self._bytes + more > MOST_BYTES:
            raise ProtocolError(f"topics with aliases take over {MOST_BYTES} bytes", ReasonCode.QUOTA_EXCEEDED)
        if more > self._budget.room_bytes:
            raise OutOfNames("the server has no memory left for topic aliases", ReasonCode.QUOTA_EXCEEDED)
        self._topics[alias] = topic
        self._bytes += more
        self._budget.take(more)

    def give_back(self) -> None:
        """The connection has ended."""
        self._budget.take(-self._bytes)
        self._bytes = 0
        self._topics.clear()


class TopicAliases:
    """Of one connection, as many as its client takes. What is told in a packet that is not sent is not told."""

    __slots__ = ("_budget", "_bytes", "_maximum", "_numbers")

    def __init__(self, maximum: int, budget: Budget) -> None:
        self._maximum, self._budget = maximum, budget
        self._numbers: dict[bytes, int] = {}
        self._bytes = 0

    def of(self, topics: Sequence[bytes]) -> array[int]:
        """As mqtt_encode.mark_aliases wants them: 0 for none, below 0 where it has to be told first."""
        found, free = array("i"), len(self._numbers)
        most = min(MOST_BYTES, self._bytes + self._budget.room_bytes)
        for topic in topics:
            number = self._numbers.get(topic, 0)
            if not number and free < self._maximum and self._bytes + len(topic) <= most:
                free += 1
                number = -free
            found.append(number)
        return found

    def told(self, topics: Sequence[bytes], aliases: array[int]) -> None:
        """Packets with these went out; `aliases` are as mark_aliases left them."""
        for topic, alias in zip(topics, aliases, strict=True):
            if alias > 0 and topic not in self._numbers:
                self._numbers[topic] = alias
                self._bytes += len(topic)
                self._budget.take(len(topic))

    def give_back(self) -> None:
        """The connection has ended."""
        self._budget.take(-self._bytes)
        self._bytes, self._maximum = 0, 0
        self._numbers.clear()
