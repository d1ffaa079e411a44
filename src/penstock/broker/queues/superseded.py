"""Messages that wait to come again and that compaction removed: a newer one of their key has taken their place."""

from __future__ import annotations

from array import array

from penstock.broker.feed.settling import Settling
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.group import Group
from penstock.broker.queues.unit import Unit
from penstock.core.errors import OffsetOutOfRange
from penstock.log.shard import Shard
from penstock.queues.cursor import HELD, Cursor


async def settle_superseded(shard: Shard, group: Group, unit: Unit, settling: Settling) -> int:
    """How many were settled. What a consumer holds stays its own until it comes back."""
    cursor = group.cursor(unit)
    waiting = array("q", [offset for offset in cursor.window.offsets() if _waits(cursor, offset)])
    settled = at = 0
    while at < len(waiting):
        try:
            read = await shard.read(unit.data, waiting[at], 1)
        except OffsetOutOfRange:
            at += 1  # retention took it, which is counted where it is missed
            continue
        if not read:
            break
        stored = StoredBatch.of(read[0])
        while at < len(waiting) and waiting[at] < stored.end:
            row = stored.row_from(waiting[at])
            is_there = row < len(stored) and stored.offsets[row] == waiting[at]
            if not is_there and cursor is group.cursor(unit) and _waits(cursor, waiting[at]):
                settled += cursor.settle(waiting[at], waiting[at] + 1)
            at += 1
    if settled:
        settling.after_dropping(group, unit)
    return settled


def _waits(cursor: Cursor, offset: int) -> bool:
    entry = cursor.window.entry(offset)
    return entry is not None and offset not in cursor.leaving and entry.state not in HELD
