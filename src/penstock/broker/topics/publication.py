"""Messages with topics on their way to whoever wants them."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.broker.publish.publisher import Publisher
from penstock.broker.sessions.targets import RETAIN
from penstock.log.columns import Columns
from penstock.log.journal.late import Part
from penstock.log.view import viewed_columns
from penstock.queues.exchange_topics import EXCHANGE_PREFIX
from penstock.queues.names import is_settlement

if TYPE_CHECKING:
    from penstock.broker.publish.entering import Entered, Further, HeadersOf
    from penstock.broker.publish.request import ProducerCall, Targets

QOS = 0x03
_MINE = (b"$SYS/", b"$share/", b"$admin/")


class Sources(Protocol):
    """The publishers of rows, as far as they are subscribers, whose identity is the object."""

    def rows_by(self, subscriber: Hashable) -> Collection[int]:
        """Those that this one published: it may have asked not to get them back."""


class OneSource(NamedTuple):
    """All rows are of one subscriber."""

    subscriber: Hashable
    rows: int

    def rows_by(self, subscriber: Hashable) -> Collection[int]:
        return range(self.rows) if subscriber is self.subscriber else ()


@dataclass(slots=True)
class Publication:
    """Rows of one publisher, or of several: all of them are taken, or none."""

    columns: Columns
    topics: list[bytes]
    """those of the topic_index"""
    flags: bytes
    """of each row: its QoS, and RETAIN"""
    publisher: Publisher
    namespace: str = "default"
    sources: Sources | None = None
    """who published it, if these are subscribers"""
    parts: Sequence[Part] = ()
    """what else goes into the frame"""
    made: dict[bytes, str] | None = None
    """by topic, the queues that were made because it names them: filled in on the way"""
    partition: int | None = None
    producer: ProducerCall | None = None
    """what a single message says to the queues that take it"""
    places: array[int] | None = None
    """of rows of several publishers, where those without a key go: see Publisher.place"""
    as_it_came: object = None
    """the rows as the door that took them has them, for it alone"""
    is_mandatory: bool = False
    """refused if there is a row that no queue and no subscriber gets"""
    targets: Targets | None = None
    """what its topics feed, where it is published in the turn in which that was looked up"""
    headers: HeadersOf | None = None
    """of a row, for exchanges; without it, its user properties"""
    further: Further = field(default_factory=dict)
    _by_topic: tuple[array[int], array[int]] | None = None
    _shown: Columns | None = None

    @property
    def shown(self) -> Columns:
        """The rows as all see them who are no queue."""
        if self.columns.native is None:
            return self.columns
        if self._shown is None:
            self._shown = viewed_columns(self.columns)
        return self._shown

    @property
    def is_directed(self) -> bool:
        """Whether it says more to queues than its topic."""
        return self.partition is not None or self.producer is not None

    @property
    def has_retained(self) -> bool:
        first = self.flags[0]
        if self.flags.count(first) == len(self.flags):
            return bool(first & RETAIN)
        return any(flag & RETAIN for flag in set(self.flags))

    def entered(self, entered: Entered) -> Publication:
        """Behind exchanges: nobody has it as it came."""
        return replace(
            self,
            columns=entered.columns,
            topics=entered.topics,
            as_it_came=None,
            targets=None,
            _by_topic=None,
            _shown=None,
        )

    def without_retained(self) -> Publication:
        """What is for an exchange is never retained."""
        index = self.columns.topic_index
        assert index is not None
        mine = [topic.startswith(EXCHANGE_PREFIX) for topic in self.topics]
        if not any(mine):
            return self
        kept = [flag & ~RETAIN if mine[topic] else flag for flag, topic in zip(self.flags, index, strict=True)]
        return replace(self, flags=bytes(kept), as_it_came=None)

    def rows_by(self, subscriber: Hashable) -> Collection[int]:
        return () if self.sources is None else self.sources.rows_by(subscriber)

    def rows_of(self, topic: int) -> array[int]:
        """Those of the topic of this number, in order. Looked for once, for all topics."""
        if self._by_topic is None:
            self._by_topic = self.columns.by_topic()
        order, begins = self._by_topic
        return order[begins[topic] : begins[topic + 1]]

    def unassured(self, rows: array[int]) -> array[int]:
        """Those without QoS."""
        return array("i", [row for row in rows if not self.flags[row] & QOS])


def is_reserved(topic: bytes) -> bool:
    """Whether nobody's message can have it: it is the broker's own, or asks the broker for something."""
    return topic.startswith(_MINE) or is_settlement(topic)
