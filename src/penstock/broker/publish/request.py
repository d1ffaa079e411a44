"""What somebody wants to be stored in queues, before any queue was asked."""

from __future__ import annotations

import enum
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from penstock.broker.publish.publisher import Publisher
from penstock.broker.queues.queue import Placed, Queue
from penstock.core.types import Purpose
from penstock.log.columns import Columns
from penstock.log.encoded import Encoded, Rows
from penstock.log.journal.late import LateParts, Part
from penstock.queues import dedup


class Limits(enum.Enum):
    """What a queue is asked before it takes rows."""

    ASKED = enum.auto()
    """their size, and whether there is room"""
    PROMISED = enum.auto()
    """nothing: room was promised to them; a queue that drops its oldest messages drops them now"""
    NONE = enum.auto()
    """nothing, and nothing is dropped; they are no publish and are not counted as one"""


class PlacedBatch(NamedTuple):
    """Rows for a partition; None: for that of rows without a key. `is_by_key`: it was found by the keys of the rows,
    and counts only while the queue has the number of partitions with which it was found."""

    rows: Encoded
    partition: int | None
    is_by_key: bool


class Put(NamedTuple):
    """Rows for one queue. They are placed by their keys, those without one where the publisher's go; or all of them in
    `partition`."""

    queue: Queue
    rows: Rows
    publisher: Publisher
    partition: int | None = None
    partitions: int | None = None
    """`partition` was found by key, with so many: the rows are placed anew if there are more now"""
    counts: tuple[list[int], array[int]] | None = None
    """the partitions in whose order the rows stand, and how many each of them gets: they are placed"""


PutFields: TypeAlias = tuple[Queue, Rows, Publisher, int | None, int | None, "tuple[list[int], array[int]] | None"]
"""a Put as a plain tuple, which takes a third of a microsecond less to make: one message in all takes fifteen"""


class Targets(NamedTuple):
    """The queues that topics feed: topic t feeds queues[n] for n in numbers[begins[t]:begins[t + 1]]."""

    queues: list[Queue]
    begins: array[int]
    numbers: array[int]
    are_entered: bool = True
    """False where one of the topics leads through an exchange: they are those that Routes.enter() is asked for"""

    def by_queue(self) -> dict[Queue, list[int]]:
        """The numbers of the topics that feed each of them."""
        found: dict[Queue, list[int]] = {queue: [] for queue in self.queues}
        for topic, (first, stop) in enumerate(pairwise(self.begins)):
            for number in self.numbers[first:stop]:
                found[self.queues[number]].append(topic)
        return found

    @property
    def feeding(self) -> list[int]:
        """The numbers of topics that feed a queue."""
        return [topic for topic, (first, stop) in enumerate(pairwise(self.begins)) if stop > first]


RoutedFields: TypeAlias = "tuple[Columns, Targets, Publisher, array[int] | None]"
"""Rows for the queues that their topics feed: `targets` are those of the columns' topics. The publisher is that of all
rows; of several publishers, whose steps count in queues that spread messages without a key. Places of each row, where
those without a key go: see Publisher.place. None: where the publisher's go. A plain tuple, as PutFields."""


class ProducerCall(NamedTuple):
    """What a producer says of a publish, so that sending it twice stores it once: its rows have the sequences from
    `base_sequence` on."""

    producer: bytes
    epoch: int
    base_sequence: int
    said: bytes | None = None
    """what the producer calls itself, where `producer` is what the login makes of it; it may be remembered so from
    before ids had owners"""

    @classmethod
    def owned(cls, owner: str, producer: str, epoch: int, base_sequence: int) -> ProducerCall:
        """Of a login: no other one can go on with it, or fence it."""
        return cls(dedup.owned(owner, producer), epoch, base_sequence, producer.encode())


class PublishRequest(NamedTuple):
    """All of it becomes one frame, or nothing does."""

    puts: Sequence[Put]
    others: Sequence[Part] = ()
    """for logs of no queue"""
    producer: ProducerCall | None = None
    """of each queue's rows, those that it has not taken before are stored"""
    late: LateParts | None = None
    """what else is decided in the turn in which the frame is staged; not beside a producer"""
    limits: Limits = Limits.ASKED
    purpose: Purpose = Purpose.PUBLISH
    routed: RoutedFields | None = None
    """beside puts; not beside a producer"""


class Published(NamedTuple):
    """Where the rows went, partition by partition. Of those taken before, offsets may be -1: no longer remembered."""

    queue: Queue
    placed: list[Placed]
    duplicates: int = 0
