"""Which partition a row goes to, and which rows of a producer came before."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from penstock.broker.publish.admission import Obstacle
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import ProducerCall, Published, Put, PutFields
from penstock.broker.queues.queue import Placed, Queue
from penstock.broker.queues.unit import Unit
from penstock.log.columns import Columns
from penstock.log.encoded import Encoded, Rows
from penstock.log.journal.late import Late
from penstock.queues import dedup, records
from penstock.queues.dedup import Call, Duplicate, Fresh, Placement, Producers
from penstock.queues.settings import Unkeyed

# A member that is looked up costs as much as a call.
_SPREAD = Unkeyed.SPREAD

Steps = list[tuple[Publisher, Queue]]
"""taken by publishers, to be taken back if it comes to nothing"""
Place: TypeAlias = "tuple[list[int], array[int], Rows]"
"""the partitions that rows go to, how many each of them gets, and all rows in that order"""


def unkeyed(queue: Queue, publisher: Publisher, steps: Steps) -> int:
    """Where rows without a key go."""
    if queue.settings.unkeyed is not _SPREAD:
        return publisher.partition(queue)
    steps.append((publisher, queue))
    return publisher.step(queue)


def step_of(queue: Queue, publisher: Publisher, steps: Steps) -> int:
    """How many partitions behind the publisher's own its rows without a key go."""
    if queue.settings.unkeyed is not _SPREAD:
        return 0
    steps.append((publisher, queue))
    return publisher.steps(queue)


def take_back(steps: Steps) -> None:
    for publisher, queue in steps:
        publisher.step_back(queue)
    steps.clear()


def place(put: PutFields, steps: Steps) -> Place:
    """InvalidArgument for a partition that the queue has not."""
    queue, rows, publisher, partition, partitions, counts = put
    if counts is not None:
        return *counts, rows
    if partition is not None:
        if partitions is None or partitions == queue.settings.partitions:
            return [queue.existing(partition)], array("i", [rows.count]), rows
        assert isinstance(rows, Encoded)
        rows = rows.columns()
    number = unkeyed(queue, publisher, steps)
    if isinstance(rows, Columns):
        return rows.gathered(queue.settings.partitions, number)
    return [number], array("i", [rows.count]), rows


# Producers


class TakenMeanwhile(Exception):
    """Another call of the producer was faster."""


def check(call: ProducerCall, queue: Queue, count: int) -> Fresh | Duplicate:
    """As dedup.Producers.check(), by what the queue remembers of the producer now, under either name."""
    said = call.said
    for name in (call.producer, said):
        unit = None if name is None else queue.units.get(queue.producer_partition(name))
        if unit is not None and name is not None and unit.producers.knows(name):
            return unit.producers.check(name, call.epoch, call.base_sequence, count, said)
    return Producers().check(call.producer, call.epoch, call.base_sequence, count, said)


class Sent:
    """What a producer sent to one queue: the rows that are fresh, where they go, and what came before."""

    __slots__ = ("_call", "_counts", "_partitions", "_unit", "before", "put")

    def __init__(self, put: Put | None, unit: Unit, call: ProducerCall, before: Duplicate | None) -> None:
        self.put, self.before = put, before
        """None: all of the rows came before; none did"""
        self._unit, self._call = unit, call
        self._counts: list[tuple[int, int]] = []
        """how many rows go to which partition"""
        self._partitions: Sequence[int] = ()
        """of each row"""

    @classmethod
    def of(cls, put: Put, call: ProducerCall) -> Sent | Obstacle:
        """OutOfOrder and FencedProducer as dedup.Producers.check(); what the queue refuses of rows that came before,
        too."""
        queue, rows = put.queue, put.rows
        queue.check(rows)
        if put.partition is not None:
            queue.existing(put.partition)
        number = queue.producer_partition(call.producer)
        unit = queue.units.get(number)
        if unit is None:
            return Obstacle(partial(queue.make, [number]))
        known = check(call, queue, rows.count)
        if not isinstance(known, Duplicate):
            return cls(put, unit, call, None)
        if known.rows == rows.count:
            return cls(None, unit, call, known)
        assert isinstance(rows, Columns)
        fresh = rows.select(array("i", range(known.rows, rows.count)))
        call = call._replace(base_sequence=call.base_sequence + known.rows)
        return cls(put._replace(rows=fresh), unit, call, known)

    @property
    def has_to_wait(self) -> bool:
        """Some came before, and are perhaps not committed yet."""
        return self.before is not None and self._unit.state is not None

    def note_place(self, numbers: list[int], counts: array[int]) -> None:
        """The rows were placed."""
        assert self.put is not None and isinstance(self.put.rows, Columns)
        queue, rows = self.put.queue, self.put.rows
        self._counts, self._partitions = list(zip(numbers, counts, strict=True)), [numbers[0]] * rows.count
        if len(numbers) > 1:
            self._partitions = rows.partitions(queue.settings.partitions, self.put.publisher.partition(queue))

    def scattered(self) -> tuple[Unit, Call]:
        """What is remembered, and where, if the rows are staged now."""
        assert self.put is not None
        queue, rows = self.put.queue, self.put.rows
        if isinstance(check(self._call, queue, rows.count), Duplicate):
            raise TakenMeanwhile
        where = [Placement(number, queue.units[number].data.end, count) for number, count in self._counts]
        call = self._call.producer, self._call.epoch, self._call.base_sequence
        return self._unit, Call.scattered(*call, where, self._partitions)

    def published(self, queue: Queue, placed: list[Placed]) -> Published:
        before = self.before
        return Published(queue, placed) if before is None else Published(queue, _runs(before) + placed, before.rows)


def remembered(sent: Sequence[Sent], now: Callable[[], int], room: int) -> Late:
    """At the moment at which offsets are given away, so that what is remembered is where the rows are."""
    calls = [each.scattered() for each in sent if each.put is not None]
    encoded = {unit: [records.encode(records.call(dedup.encode(call)))] for unit, call in calls}

    def apply() -> None:
        for unit, call in calls:
            unit.producers.apply(call, now())
            if unit.state is not None:
                unit.note_records(encoded[unit])

    return Late([(unit.state, Columns.of(values)) for unit, values in encoded.items() if unit.state], apply)


def _runs(verdict: Duplicate) -> list[Placed]:
    """Of rows that lie behind each other."""
    runs: list[Placed] = []
    for partition, offset in zip(*verdict.offsets(), strict=True):
        last = runs[-1] if runs else None
        if last is not None and last.partition == partition and (offset < 0 or offset == last.base_offset + last.rows):
            runs[-1] = last._replace(rows=last.rows + 1)
        else:
            runs.append(Placed(partition, offset, 1))
    return runs
