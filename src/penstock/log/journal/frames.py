"""Frames: the unit of atomic commit. One frame holds batches and edits for any number of logs; replay takes it whole
or not."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.errors import CorruptFrame, PenstockError
from penstock.core.ports import Buffer
from penstock.core.types import Durability, Generation, LogNumber, Sequence
from penstock.kernels.crc import crc32c
from penstock.kernels.entry import MAGIC, FrameEntry, framed, head_of, pieces_of
from penstock.kernels.frames import entries as scan_entries
from penstock.kernels.staged import entries_bytes
from penstock.log.records import Edit, encode_edit

MAX_FRAME_BYTES = 16 << 20
FRAME_HEADER_BYTES = 40
ENTRY_HEADER_BYTES = 16

_CRC_AND_REST = struct.Struct("<4sIQQQII")
# Below this a copy of 0.2 us costs less than a checksum call and a buffer of the gathering write for each entry.
_COPIED_BYTES = 4096
_NO_SEQUENCE = Sequence(-1)


if TYPE_CHECKING:

    class Entry(FrameEntry):
        """One log's part of a frame: a batch with the offsets it covers, or an edit, decoded. Never changed."""

        log: LogNumber
        edit: Edit | None
        sequence: Sequence
        """of the frame, where a log holds it as part of its tail"""

else:
    # No subclass of it: the garbage collector would look at that one.
    Entry = FrameEntry


@dataclass(slots=True, eq=False)
class Frame:
    """A commit on its way: staged by the loop, written by the storage thread, folded by the keeper."""

    sequence: Sequence
    level: Durability
    entries: list[Entry]
    bytes: int
    done: Callable[[PenstockError | None], None] | None = None
    has_edits: bool = False


@dataclass(frozen=True, slots=True)
class FrameHeader:
    generation: Generation
    sequence: Sequence
    durable: Sequence
    bytes: int
    count: int


@dataclass(slots=True)
class FrameScratch:
    """Room for the entry table of one frame, grown as needed."""

    rows: array[int] = field(default_factory=lambda: array("q", bytes(8 * 4 * 64)))

    def for_entries(self, count: int) -> array[int]:
        if len(self.rows) < 4 * count:
            self.rows = array("q", bytes(8 * 4 * count))
        return self.rows


def edit_entry(log: LogNumber, edit: Edit, sequence: Sequence = _NO_SEQUENCE) -> Entry:
    return Entry(log, encode_edit(edit), edit, sequence=sequence)


def frame_bytes(entries: list[Entry]) -> int:
    """Size of the frame on disk."""
    return FRAME_HEADER_BYTES + entries_bytes(entries)


def encode_frame(frame: Frame, generation: Generation, durable: Sequence) -> list[Buffer]:
    """The frame as buffers for one gathering write; batches are copied only where they are small."""
    entries, sequence = frame.entries, frame.sequence
    if frame.bytes < _COPIED_BYTES * len(entries):
        return [framed(entries, generation, sequence, durable)]
    pieces = pieces_of(entries)
    return [head_of(pieces, len(entries), generation, sequence, durable), *pieces]


def read_frame_header(data: memoryview, position: int) -> FrameHeader:
    """The header and checksum of the frame at `position`; CorruptFrame if there is none."""
    if len(data) - position < FRAME_HEADER_BYTES:
        raise CorruptFrame("the file ends inside a frame header", position)
    magic, crc, generation, sequence, durable, body, count = _CRC_AND_REST.unpack_from(data, position)
    total = FRAME_HEADER_BYTES + body
    if magic != MAGIC:
        raise CorruptFrame("no frame begins here", position)
    if total > MAX_FRAME_BYTES or body % 8 or total > len(data) - position or count * ENTRY_HEADER_BYTES > body:
        raise CorruptFrame(f"claims {body} bytes and {count} entries", position)
    if crc32c(data[position + 8 : position + total]) != crc:
        raise CorruptFrame("checksum does not match", position)
    return FrameHeader(Generation(generation), Sequence(sequence), Sequence(durable), total, count)


def read_entries(
    data: memoryview, position: int, header: FrameHeader, scratch: FrameScratch
) -> Iterator[tuple[int, int, memoryview]]:
    """(log number, kind, bytes) of each entry of a frame whose header was read."""
    rows = scratch.for_entries(header.count)
    start = position + FRAME_HEADER_BYTES
    count = scan_entries(data, start, position + header.bytes, rows)
    if count != header.count:
        raise CorruptFrame(f"{count} entries where {header.count} were promised", position)
    for i in range(0, 4 * count, 4):
        yield rows[i], rows[i + 1], data[rows[i + 2] : rows[i + 3]]
