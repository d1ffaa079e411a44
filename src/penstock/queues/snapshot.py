"""A unit's state as a whole: what its snapshots log holds, made and read.

A snapshot is one or more records, pieces, each with the offset in the state log up to which the snapshot includes
everything, and a mark on the last."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.log.batch import Batch
from penstock.queues import records
from penstock.queues.records import StateRecord

PIECE_BYTES = 1 << 20
_HEAD = struct.Struct("<qqII")
"""offset in the state log, time, number of the piece, 1 on the last one"""
_LENGTH = struct.Struct("<I")


class Piece(NamedTuple):
    offset: int
    state_offset: int
    time_ms: int
    number: int
    is_last: bool
    body: memoryview


class Snapshot(NamedTuple):
    """A whole one. `first` is the offset of its first piece; of the state log it includes all below `state_offset`."""

    first: int
    state_offset: int
    time_ms: int
    body: bytes

    def records(self) -> Iterator[StateRecord]:
        """InvalidArgument where it holds something else."""
        at = 0
        while at < len(self.body):
            if at + _LENGTH.size > len(self.body):
                raise InvalidArgument("a snapshot ends inside a record")
            (length,) = _LENGTH.unpack_from(self.body, at)
            at += _LENGTH.size
            yield records.decode(self.body[at : at + length])
            at += length


def pieces(found: Iterable[bytes], state_offset: int, now: int, most_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """The records of its log, of encoded state records."""
    body = b"".join(_LENGTH.pack(len(record)) + record for record in found)
    count = max(1, -(-len(body) // most_bytes))
    for number in range(count):
        part = body[number * most_bytes : (number + 1) * most_bytes]
        yield _HEAD.pack(state_offset, now, number, number == count - 1) + part


def wholes(batches: Iterable[Buffer]) -> list[Snapshot]:
    """Those of which every piece is there, oldest first. InvalidArgument for records that are no pieces."""
    found: list[Snapshot] = []
    some: list[Piece] = []
    for data in batches:
        for row in Batch.parse(data):
            piece = _piece(row.offset, row.value)
            some = [piece] if piece.number == 0 else [*some, piece]
            if piece.is_last and len(some) == piece.number + 1:
                body = b"".join(bytes(each.body) for each in some)
                found.append(Snapshot(some[0].offset, some[0].state_offset, some[0].time_ms, body))
    return found


def _piece(offset: int, value: bytes) -> Piece:
    if len(value) < _HEAD.size:
        raise InvalidArgument("a piece of a snapshot is shorter than its head")
    state_offset, time_ms, number, is_last = _HEAD.unpack_from(value)
    return Piece(offset, state_offset, time_ms, number, bool(is_last), memoryview(value)[_HEAD.size :])
