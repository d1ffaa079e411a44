"""One log's part of a frame, as an object that costs little: there are as many as there are batches in memory. And
many of them as the bytes of a frame.

Numbers are int64. The native one is not looked at by the garbage collector, so nothing that `data` or `edit` refers to
may refer back to it."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from itertools import repeat
from operator import add

from penstock.core.ports import Buffer
from penstock.kernels.crc import crc32c

MAGIC = b"PSTF"
_HEAD = struct.Struct("<QIB3x")
_REST = struct.Struct("<QQQII")
_ZEROS = bytes(8)
KIND_BATCH, KIND_EDIT = 1, 2


class FrameEntryPlain:
    """A batch with the offsets it covers, or an edit."""

    __slots__ = ("data", "edit", "end", "first", "first_timestamp", "log", "max_timestamp", "records", "sequence")

    def __init__(
        self,
        log: int,
        data: Buffer,
        edit: object | None = None,
        first: int = 0,
        end: int = 0,
        records: int = 0,
        first_timestamp: int = 0,
        max_timestamp: int = 0,
        sequence: int = -1,
    ) -> None:
        self.log, self.data, self.edit = log, data, edit
        self.first, self.end, self.records = first, end, records
        self.first_timestamp, self.max_timestamp, self.sequence = first_timestamp, max_timestamp, sequence


def entries_of_plain(
    logs: array[int],
    batches: list[bytearray],
    firsts: array[int],
    counts: array[int],
    times: array[int],
    sequence: int,
) -> list[FrameEntry]:
    """Batch i is of the log of number logs[i] ('q'), its counts[i] records (int32) follow firsts[i] and have the time
    times[i] ('q')."""
    ends, sequences = map(add, firsts, counts), repeat(sequence)
    return list(map(FrameEntry, logs, batches, repeat(None), firsts, ends, counts, times, times, sequences))


def pieces_of(entries: Sequence[FrameEntry]) -> list[Buffer]:
    """The entry table of a frame (log/FORMAT.md), with the batches as they are."""
    pieces: list[Buffer] = []
    for entry in entries:
        size = len(entry.data)
        pieces += (_HEAD.pack(entry.log, size, KIND_BATCH if entry.edit is None else KIND_EDIT), entry.data)
        if size & 7:
            pieces.append(_ZEROS[: -size & 7])
    return pieces


def head_of(pieces: Sequence[Buffer], count: int, generation: int, sequence: int, durable: int) -> bytes:
    """The header of the frame that has these pieces, of so many entries."""
    rest = _REST.pack(generation, sequence, durable, sum(map(len, pieces)), count)
    crc = crc32c(rest)
    for piece in pieces:
        crc = crc32c(piece, crc)
    return MAGIC + crc.to_bytes(4, "little") + rest


def framed_plain(entries: Sequence[FrameEntry], generation: int, sequence: int, durable: int) -> bytes:
    """A whole frame in one, copied."""
    pieces = pieces_of(entries)
    return b"".join([head_of(pieces, len(entries), generation, sequence, durable), *pieces])


try:
    from penstock.kernels._native import FrameEntry, entries_of, framed
except ImportError:
    FrameEntry = FrameEntryPlain  # type: ignore[assignment,misc]  # the same attributes, in Python
    entries_of, framed = entries_of_plain, framed_plain

__all__ = [
    "KIND_BATCH",
    "KIND_EDIT",
    "MAGIC",
    "FrameEntry",
    "FrameEntryPlain",
    "entries_of",
    "entries_of_plain",
    "framed",
    "framed_plain",
    "head_of",
    "pieces_of",
]
