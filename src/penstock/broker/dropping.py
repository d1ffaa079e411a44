"""Making room in a full queue that drops its oldest messages: settled for every group, in flight or not."""

from __future__ import annotations

from typing import NamedTuple

from penstock.broker.queue import Queue
from penstock.broker.settling import Settling
from penstock.broker.unit import Unit
from penstock.core.errors import OffsetOutOfRange


class _Oldest(NamedTuple):
    """The oldest message of a partition that a group has not settled; those up to `end` are of one batch with it."""

    time_ms: int
    partition: int
    offset: int
    end: int


async def drop_oldest(queue: Queue, count: int, settling: Settling) -> None:
    """Until `count` more messages fit, or nothing is left to drop: the limit may have been lowered since they were
    promised room."""
    limit = queue.settings.limits.max_queue_depth
    if limit is None:
        return
    while (excess := queue.depth() + count - limit) > 0:
        oldest = [found for unit in list(queue.units.values()) if (found := await _oldest(queue, unit)) is not None]
        if not oldest:
            return
        _, partition, offset, end = min(oldest)
        unit = queue.units[partition]
        for group in queue.groups.values():
            cursor = group.cursor(unit)
            cursor.tally.dropped += cursor.settle_below(min(offset + excess, end))
            settling.after_dropping(group, unit)


async def _oldest(queue: Queue, unit: Unit) -> _Oldest | None:
    """None where every group has settled everything."""
    floor = min([group.cursor(unit).window.floor for group in queue.groups.values()], default=unit.data.end)
    if not unit.has_between(floor, unit.data.end):
        return None
    try:
        stored = await unit.stored(floor)
    except OffsetOutOfRange:
        return _Oldest(0, unit.partition, floor, unit.start)
    if stored is None:
        # Not committed yet: the youngest of all.
        return _Oldest(1 << 62, unit.partition, max(floor, unit.end), unit.data.end)
    row = min(stored.row_from(floor), len(stored) - 1)
    # Offsets may be missing before it, very many after a crash.
    offset = max(floor, stored.offsets[row])
    return _Oldest(stored.batch.timestamps()[row], unit.partition, offset, stored.end)
