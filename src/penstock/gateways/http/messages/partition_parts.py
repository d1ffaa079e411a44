"""Stored messages of a partition in small parts, for those who look and take nothing."""

from __future__ import annotations

from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import Start
from penstock.broker.queues.unit import Unit
from penstock.core.errors import InvalidArgument, OffsetOutOfRange
from penstock.gateways.http.messages.cursors import Vector
from penstock.log.batch import Row

_OFFSET = "offset:"


class Part(NamedTuple):
    """Rows that follow each other in one partition, and the offset to go on from."""

    rows: list[Row]
    next: int
    is_gap: bool = False
    """there are no rows: what lay before `next` is gone"""


async def read_part(unit: Unit, offset: int, stop: int, most: int) -> Part:
    """Up to `most` rows from an offset on, all of one stored batch and none at or behind the stop."""
    if offset < unit.start:
        return Part([], min(unit.start, stop), is_gap=True)
    stored = unit.stored_near(offset)
    if stored is None:
        try:
            stored = await unit.stored(offset)
        except OffsetOutOfRange:
            return Part([], min(unit.start, stop), is_gap=True)
    if stored is None or stored.first >= stop:
        return Part([], stop)
    first, last = stored.row_from(offset), stored.row_from(stop)
    if last - first > most:
        rows = stored.messages(range(first, first + most))
        return Part(rows, rows[-1].offset + 1)
    return Part(stored.messages(range(first, last)), min(stored.end, stop))


def parse_start(text: str) -> Start:
    """What Start.parse() takes, and `offset:17`."""
    number = text.removeprefix(_OFFSET)
    if number != text and not number.isdecimal():
        raise InvalidArgument(f"{text[:100]!r} names no offset: write it like offset:17")
    return Start.parse(number)


async def place_of(start: Start, queue: Queue, broker: Broker) -> Vector:
    """Where that is in each partition, as far as may be read."""
    found: dict[int, int] = {}
    for partition, unit in list(queue.units.items()):
        offset = await start.offset(broker.shard, unit.data, partition, broker.wall())
        found[partition] = min(offset, unit.end)
    return Vector(found)
