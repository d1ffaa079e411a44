"""A unit's state as a whole, now and then, so that its state log need not be kept or replayed from the beginning.

Snapshots are records of a log of their own beside the state log: pieces, each with the offset in the state log up to
which the snapshot includes everything, and a mark on the last. Three are kept."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from penstock.broker.ledger import drained, state_parts
from penstock.broker.queue import Queue
from penstock.broker.unit import Unit
from penstock.core.types import Purpose
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.partition import Log
from penstock.log.shard import Shard
from penstock.queues import dedup, records
from penstock.queues.records import Kind, StateRecord

RECORDS, INTERVAL_MS, KEPT = 10_000, 5 * 60 * 1000, 3
_PIECE_BYTES = 1 << 20
_HEAD = struct.Struct("<qqII")
"""offset in the state log, time, number of the piece, 1 on the last one"""
_LENGTH = struct.Struct("<I")


class _Piece(NamedTuple):
    offset: int
    state_offset: int
    number: int
    is_last: bool
    body: memoryview


def is_due(unit: Unit, now: int) -> bool:
    """Enough records since the last one, or enough time, and more to replay than a snapshot would take."""
    if not unit.records_since_snapshot or unit.bytes_since_snapshot <= unit.snapshot_bytes:
        return False
    return unit.records_since_snapshot >= RECORDS or now - unit.last_snapshot_ms >= INTERVAL_MS


async def write(shard: Shard, queue: Queue, unit: Unit, now: int) -> None:
    """Make one, and let go of what three of them make superfluous."""
    await queue.snapshots(unit)
    log = unit.snapshots
    assert log is not None
    unit.records_since_snapshot = unit.bytes_since_snapshot = 0
    unit.last_snapshot_ms = now
    found: list[bytes] = []

    def late() -> list[tuple[Log, Columns]]:
        """All at one moment: the state, and where the state log stands."""
        parts = state_parts({unit: drained(unit)})
        end = unit.state.end + sum([columns.count for _, columns in parts])
        found.extend(_pieces(_state(unit), end, now))
        return [*parts, (log, Columns.of(found[:1]))]

    first = (await shard.commit((), Purpose.SETTLE, late))[-1]
    for piece in found[1:]:
        await shard.append(log, Columns.of([piece]), Purpose.SETTLE)
    unit.snapshot_bytes = sum(map(len, found))
    unit.snapshot_starts = [*unit.snapshot_starts, (first, _HEAD.unpack_from(found[0])[0])][-KEPT:]
    oldest, state_offset = unit.snapshot_starts[0]
    if len(unit.snapshot_starts) == KEPT:
        await shard.trim(unit.state, state_offset)
        await shard.trim(log, oldest)


def read(shard: Shard, unit: Unit) -> tuple[list[StateRecord], int]:
    """The records of the newest whole snapshot, and from where on the state log is to be replayed."""
    log = unit.snapshots
    if log is None:
        return [], unit.state.start
    wholes = _wholes(shard, log)
    unit.snapshot_starts = [(pieces[0].offset, pieces[0].state_offset) for pieces in wholes][-KEPT:]
    if not wholes:
        return [], unit.state.start
    body = b"".join(bytes(piece.body) for piece in wholes[-1])
    unit.snapshot_bytes = len(body)
    return list(_records(body)), wholes[-1][0].state_offset


def _wholes(shard: Shard, log: Log) -> list[list[_Piece]]:
    wholes: list[list[_Piece]] = []
    pieces: list[_Piece] = []
    for data in shard.reader.batches(log, log.start):
        for row in Batch.parse(data):
            state_offset, _, number, is_last = _HEAD.unpack_from(row.value)
            piece = _Piece(row.offset, state_offset, number, bool(is_last), memoryview(row.value)[_HEAD.size :])
            pieces = [piece] if number == 0 else [*pieces, piece]
            if piece.is_last and len(pieces) == number + 1:
                wholes.append(pieces)
    return wholes


def _state(unit: Unit) -> list[bytes]:
    found = [record for cursor in unit.cursors.values() for record in cursor.dump()]
    return [
        *map(records.encode, found),
        *(records.encode(records.call(dedup.encode(call))) for call, _ in unit.producers.dump()),
    ]


def _pieces(found: list[bytes], state_offset: int, now: int) -> Iterator[bytes]:
    body = b"".join(_LENGTH.pack(len(record)) + record for record in found)
    count = max(1, -(-len(body) // _PIECE_BYTES))
    for number in range(count):
        part = body[number * _PIECE_BYTES : (number + 1) * _PIECE_BYTES]
        yield _HEAD.pack(state_offset, now, number, number == count - 1) + part


def _records(body: bytes) -> Iterator[StateRecord]:
    at = 0
    while at < len(body):
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        yield records.decode(body[at : at + length])
        at += length


def restore(shard: Shard, unit: Unit, now: int) -> None:
    """Snapshot, then what came after it. Records of groups that were deleted are passed over."""
    found, offset = read(shard, unit)
    for record in found:
        _apply(unit, record, now)
    replayed = size = 0
    for data in shard.reader.batches(unit.state, max(offset, unit.state.start)):
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
