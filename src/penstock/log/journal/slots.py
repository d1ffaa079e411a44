"""The files of the journal as they are found: what their headers say, and the frames in them, also behind damage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.core.errors import CorruptFrame
from penstock.core.ports import Disk, File
from penstock.core.types import FilePosition, Generation, Sequence
from penstock.kernels.entry import MAGIC
from penstock.log.journal.frames import FRAME_HEADER_BYTES, FrameHeader, read_frame_header
from penstock.log.journal.journal import DIRECTORY, FILE_HEADER_BYTES, SlotHeader, decode_slot_page

_MAGIC = re.compile(re.escape(MAGIC))
NO_SEQUENCE = Sequence(0)


@dataclass(frozen=True, slots=True)
class JournalSlot:
    path: str
    header: SlotHeader
    has_header: bool = True
    """False where both copies are damaged, and the first frame told what they said"""


def journal_slots(disk: Disk, *, search: bool = False) -> list[JournalSlot]:
    """The files that were ever used, by generation. With `search` those too whose header and first frames are damaged,
    if a frame further behind is whole."""
    slots = []
    for path in slot_paths(disk):
        file = disk.open_read(path)
        try:
            slot = read_slot(file, path, search=search)
        finally:
            file.close()
        if slot is not None:
            slots.append(slot)
    return sorted(slots, key=lambda slot: slot.header.generation)


def slot_path(number: int) -> str:
    return f"{DIRECTORY}/{number:04d}"


def slot_paths(disk: Disk) -> list[str]:
    return [f"{DIRECTORY}/{name}" for name in disk.list(DIRECTORY)]


def read_slot(file: File, path: str, *, search: bool = False) -> JournalSlot | None:
    """None for a file that was never used, or of which nothing can be read."""
    header = decode_slot_page(file.read(FilePosition(0), FILE_HEADER_BYTES))
    if header is not None:
        return JournalSlot(path, header)
    frame = _newest_use(file.map()) if search else _frame_at(file.map(), FILE_HEADER_BYTES)
    return JournalSlot(path, SlotHeader(frame.generation, frame.sequence), False) if frame is not None else None


def has_frames(disk: Disk) -> bool:
    """Whether the journal was ever written to."""
    return any(_newest_use(map_slot(disk, slot)) is not None for slot in journal_slots(disk, search=True))


def map_slot(disk: Disk, slot: JournalSlot) -> memoryview:
    file = disk.open_read(slot.path)
    try:
        return file.map()
    finally:
        file.close()


class SlotWalk:
    """The frames of a slot in order, from its beginning up to `limit`, the sequence that its successor begins with.
    Where one cannot be read, frames below `needed_from` are passed over to the next whole one: they are not needed, or
    known to be lost. Otherwise it ends, and `expected`, `position` and `reason` say where and why."""

    def __init__(
        self, data: memoryview, slot: JournalSlot, limit: Sequence | None, needed_from: Sequence = NO_SEQUENCE
    ) -> None:
        self._data, self._slot, self._limit, self._needed_from = data, slot, limit, needed_from
        self.position, self.expected, self.reason = FILE_HEADER_BYTES, slot.header.first_sequence, ""

    def __iter__(self) -> Iterator[tuple[int, FrameHeader]]:
        while self._limit is None or self.expected < self._limit:
            if (header := self._next()) is None:
                return
            position = self.position
            self.expected, self.position = Sequence(header.sequence + 1), position + header.bytes
            yield position, header

    def _next(self) -> FrameHeader | None:
        path, generation = self._slot.path, self._slot.header.generation
        try:
            header = read_frame_header(self._data, self.position)
        except CorruptFrame as error:
            self.reason = f"{path}, {error}"
        else:
            if (header.generation, header.sequence) == (generation, self.expected):
                return header
            self.reason = f"{path}, byte {self.position}: a frame of an earlier use of the file"
        if self.expected >= self._needed_from:
            return None
        for position, found in self.survivors():
            if self.expected < found.sequence <= self._needed_from and not self._is_beyond(found.sequence):
                self.position = position
                return found
        return None

    def _is_beyond(self, sequence: Sequence) -> bool:
        return self._limit is not None and sequence >= self._limit

    def survivors(self) -> Iterator[tuple[int, FrameHeader]]:
        """Whole frames of this use of the file behind the place where the walk stands. Where the damaged one says it
        ends comes first: a value inside it may look like a frame."""
        data, generation = self._data, self._slot.header.generation
        claimed = _claimed_end(data, self.position)
        if (header := _frame_at(data, claimed)) is not None and header.generation == generation:
            yield claimed, header
        for found in _MAGIC.finditer(data, self.position + 1):
            at = found.start()
            header = _frame_at(data, at) if at % 8 == 0 and at != claimed else None
            if header is not None and header.generation == generation:
                yield at, header


def known_durable_in(data: memoryview, slot: JournalSlot, limit: Sequence | None) -> Sequence:
    """Frames below were durable, by what the slot and its successor say."""
    if limit is not None:
        return limit
    walk, known = SlotWalk(data, slot, None), slot.header.first_sequence
    for _, header in walk:
        known = max(known, header.durable)
    return max([known, *(header.durable for _, header in walk.survivors())])


def _frame_at(data: memoryview, position: int) -> FrameHeader | None:
    try:
        return read_frame_header(data, position)
    except CorruptFrame:
        return None


def _claimed_end(data: memoryview, position: int) -> int:
    """Where the frame there ends if its length is not what is damaged; the end of the file otherwise."""
    if position + FRAME_HEADER_BYTES > len(data):
        return len(data)
    return min(position + FRAME_HEADER_BYTES + int.from_bytes(data[position + 32 : position + 36], "little"), len(data))


def _newest_use(data: memoryview) -> FrameHeader | None:
    """The first frame of the highest generation: what lies behind it of lower ones an earlier use left."""
    newest: FrameHeader | None = None
    for found in _MAGIC.finditer(data, FILE_HEADER_BYTES):
        frame = _frame_at(data, found.start()) if found.start() % 8 == 0 else None
        if frame is not None and (newest is None or frame.generation > newest.generation):
            newest = frame
    return newest


def last_generation(slots: list[JournalSlot]) -> Generation:
    return slots[-1].header.generation if slots else Generation(0)
