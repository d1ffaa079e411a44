"""Making room in a full queue that drops its oldest messages: settled for every group, in flight or not."""

from __future__ import annotations

from penstock.broker.queue import Queue
from penstock.broker.settling import Settling
from penstock.broker.unit import Unit
from penstock.core.errors import OffsetOutOfRange

_NEVER = 1 << 62


async def drop_oldest(queue: Queue, count: int, settling: Settling) -> None:
    """Until `count` more messages fit; QueueFull if they never could."""
    limit = queue.settings.limits.max_queue_depth
    if limit is None:
        return
    if count > limit:
        raise queue.full()
    while (excess := queue.depth() + count - limit) > 0:
        unit = await _oldest(queue)
        if unit is None:
            return
        floor = _floor(queue, unit)
        stored = unit.stored_near(floor)
        stop = min(floor + excess, stored.end if stored is not None else floor + excess, unit.data.end)
        for group in queue.groups.values():
            cursor = group.cursor(unit)
            cursor.tally.dropped += cursor.settle_below(stop)
            settling.after_dropping(group, unit)


async def _oldest(queue: Queue) -> Unit | None:
    """The partition whose oldest unsettled message is the oldest."""
    ages = [(await _time(queue, unit), unit.partition) for unit in list(queue.units.values())]
    time, partition = min(ages, default=(_NEVER, 0))
    return queue.units[partition] if time < _NEVER else None


async def _time(queue: Queue, unit: Unit) -> int:
    floor = _floor(queue, unit)
    if floor >= unit.data.end:
        return _NEVER
    try:
        stored = await unit.stored(floor)
    except OffsetOutOfRange:
        return 0
    if stored is None:
        return _NEVER - 1
    row = min(stored.row_from(floor), len(stored) - 1)
    return stored.batch.timestamps()[row]


def _floor(queue: Queue, unit: Unit) -> int:
    return min([group.cursor(unit).window.floor for group in queue.groups.values()], default=unit.data.end)
