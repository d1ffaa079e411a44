"""A unit's state as a whole, now and then, so that its state log need not be kept or replayed from the beginning.

Snapshots are records of a log of their own beside the state log (queues/snapshot.py). Three are kept."""

from __future__ import annotations

from penstock.broker.queues.ledger import Statement
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.core.types import Purpose
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.journal.late import Late
from penstock.log.shard import Shard
from penstock.queues import dedup, records, snapshot
from penstock.queues.records import Kind, StateRecord

RECORDS, INTERVAL_MS, KEPT = 10_000, 5 * 60 * 1000, 3


def is_due(unit: Unit, now: int) -> bool:
    """Enough records since the last one, or enough time, and more to replay than a snapshot would take."""
    if not unit.records_since_snapshot or unit.bytes_since_snapshot <= unit.snapshot_bytes:
        return False
    return unit.records_since_snapshot >= RECORDS or now - unit.last_snapshot_ms >= INTERVAL_MS


async def write(shard: Shard, queue: Queue, unit: Unit, now: int) -> None:
    """Make one, and let go of what three of them make superfluous. Who comes while another one is made waits: there is
    one log for them, and their pieces stand one behind the other."""
    async with queue.snapshotting:
        if not queue.is_deleted:
            await _write(shard, queue, unit, now)


async def _write(shard: Shard, queue: Queue, unit: Unit, now: int) -> None:
    await queue.snapshots(unit)
    log = unit.snapshots
    assert log is not None
    found: list[bytes] = []
    starts: list[int] = []
    piece_bytes = min(snapshot.PIECE_BYTES, shard.max_frame_bytes // 4)

    def late(room: int) -> Late:
        """All at one moment: the state, and where the state log stands. If that does not know everything yet, and there
        is more than goes in the frame, it is told first."""
        statement = Statement(room - 2 * piece_bytes)
        is_all = statement.say(unit)
        parts = statement.parts()
        end = unit.state_log.end + sum([columns.count for _, columns in parts])
        pieces = list(snapshot.pieces(_state(unit), end, now, piece_bytes)) if is_all else []

        def apply() -> None:
            statement.apply()
            if is_all:
                starts.append(end)
                found.extend(pieces)
                unit.records_since_snapshot = unit.bytes_since_snapshot = 0
                unit.last_snapshot_ms = now

        return Late([*parts, (log, Columns.of(pieces[:1]))] if is_all else parts, apply)

    while not found:
        first = (await shard.commit((), Purpose.SETTLE, late))[-1]
    for piece in found[1:]:
        await shard.append(log, Columns.of([piece]), Purpose.SETTLE)
    unit.snapshot_bytes = sum(map(len, found))
    unit.snapshot_starts = [*unit.snapshot_starts, (first, starts[0])][-KEPT:]
    oldest, state_offset = unit.snapshot_starts[0]
    if len(unit.snapshot_starts) == KEPT:
        await shard.trim(unit.state_log, state_offset)
        await shard.trim(log, oldest)


def read(shard: Shard, unit: Unit) -> tuple[list[StateRecord], int]:
    """The records of the newest whole snapshot, and from where on the state log is to be replayed."""
    log = unit.snapshots
    if log is None:
        return [], unit.state_log.start
    wholes = snapshot.wholes(shard.readable(log, log.start))
    unit.snapshot_starts = [(each.first, each.state_offset) for each in wholes][-KEPT:]
    if not wholes:
        return [], unit.state_log.start
    unit.snapshot_bytes = len(wholes[-1].body)
    return list(wholes[-1].records()), wholes[-1].state_offset


def _state(unit: Unit) -> list[bytes]:
    found = [record for cursor in unit.cursors.values() for record in cursor.dump()]
    return [
        *map(records.encode, found),
        *(records.encode(records.call(dedup.encode(call))) for call, _ in unit.producers.dump()),
    ]


def restore(shard: Shard, unit: Unit, now: int) -> None:
    """Snapshot, then what came after it. Records of groups that were deleted are passed over."""
    found, offset = read(shard, unit)
    for record in found:
        _apply(unit, record, now)
    replayed = size = 0
    for data in shard.readable(unit.state_log, max(offset, unit.state_log.start)):
        for row in Batch.parse(data, verify=False):
            if row.offset >= offset:
                _apply(unit, records.decode(row.value), row.timestamp)
                replayed += 1
                size += len(row.value)
    unit.records_since_snapshot, unit.bytes_since_snapshot, unit.last_snapshot_ms = replayed, size, now


def _apply(unit: Unit, record: StateRecord, time_ms: int) -> None:
    if record.kind is Kind.CALL:
        unit.producers.apply(dedup.decode(record.data), time_ms)
    elif (cursor := unit.cursors.get(record.group)) is not None:
        cursor.apply(record)
