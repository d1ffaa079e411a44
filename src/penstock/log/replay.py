"""Reading a journal back: which files continue each other, where the sequence ends, and whether that end is a torn
tail or damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.core.errors import CorruptFrame, JournalDamaged
from penstock.core.ports import Disk, File
from penstock.core.types import FilePosition, Generation, LogNumber, Sequence
from penstock.kernels.entry import KIND_BATCH, KIND_EDIT
from penstock.log.batch import next_offset, read_header
from penstock.log.frames import (
    MAGIC,
    Entry,
    FrameHeader,
    FrameScratch,
    read_entries,
    read_frame_header,
)
from penstock.log.journal import DIRECTORY, FILE_HEADER_BYTES, SlotHeader, UsedSlot, decode_slot_header
from penstock.log.records import decode_edit

_COPY_BYTES = 1 << 20


NO_GENERATION = Generation(0)


@dataclass(frozen=True, slots=True)
class JournalSlot:
    path: str
    header: SlotHeader


@dataclass(frozen=True, slots=True)
class ReplayedFrame:
    sequence: Sequence
    entries: list[tuple[int, int, memoryview]]
    """(log number, kind, bytes); the bytes lie in the mapped file"""
    path: str
    position: FilePosition


@dataclass(slots=True)
class JournalReader:
    """Reads the frames from `first` on, in order, and then knows how the journal ended. Writes nothing."""

    disk: Disk
    first: Sequence
    known_durable: Sequence
    """frames below are known to have been durable (from the checkpoint); grows with what the frames say"""
    end: Sequence = field(init=False)
    """first sequence that is not there"""
    torn_bytes: int = 0
    used: list[UsedSlot] = field(default_factory=list)
    """slots whose frames were read, and where each ends"""
    free: list[str] = field(default_factory=list)
    slots: int = 0
    last_generation: Generation = NO_GENERATION
    break_reason: str = ""

    def __post_init__(self) -> None:
        self.end = self.first

    def sync_files(self) -> None:
        """What is read may be in the page cache only; make it durable before anything rests on it. If an earlier sync
        failed, the cache holds as clean what never reached the disk, so the file written last is written again, as it
        is."""
        chain = self._chain()
        for slot in chain:
            file = self.disk.open(slot.path)
            if slot is chain[-1]:
                _write_again(file)
            file.sync()
            file.close()

    def frames(self) -> Iterator[ReplayedFrame]:
        """JournalDamaged, after the last readable frame, if the end lies below what is known to have been durable."""
        chain = self._chain()
        for i, slot in enumerate(chain):
            limit = chain[i + 1].header.first_sequence if i + 1 < len(chain) else None
            self.known_durable = max(self.known_durable, slot.header.first_sequence, limit or self.known_durable)
            yield from self._file(slot, limit)
            self.used.append(UsedSlot(slot.path, self.end))
            if limit is not None and self.end < limit:
                break
        if self.end < self.known_durable:
            raise JournalDamaged(self.end, self.known_durable, self.break_reason or "its file is missing")

    def _chain(self) -> list[JournalSlot]:
        """Files with frames at or above `first`, by generation. Others are free to be written over."""
        slots: list[JournalSlot] = []
        self.free = []
        names = self.disk.list(DIRECTORY)
        self.slots = len(names)
        for name in names:
            path = f"{DIRECTORY}/{name}"
            file = self.disk.open_read(path)
            header = decode_slot_header(file.read(FilePosition(0), 64))
            if header is None and self._holds_needed_frames(file):
                raise JournalDamaged(self.first, self.known_durable, f"the header of {path} is damaged")
            file.close()
            if header is None:
                self.free.append(path)
            else:
                slots.append(JournalSlot(path, header))
        slots.sort(key=lambda slot: slot.header.generation)
        self.last_generation = slots[-1].header.generation if slots else Generation(0)
        begin = max((i for i, slot in enumerate(slots) if slot.header.first_sequence <= self.first), default=0)
        self.free += [slot.path for slot in slots[:begin]]
        return slots[begin:]

    def _holds_needed_frames(self, file: File) -> bool:
        """A file without a header was never used; one that has lost it holds frames. Headers are not torn."""
        data, position = file.map(), FILE_HEADER_BYTES
        try:
            while (header := read_frame_header(data, position)).sequence < self.first:
                position += header.bytes
        except CorruptFrame:
            return False
        return True

    def _file(self, slot: JournalSlot, limit: Sequence | None) -> Iterator[ReplayedFrame]:
        file = self.disk.open_read(slot.path)
        data = file.map()
        file.close()
        expected, position = slot.header.first_sequence, FILE_HEADER_BYTES
        scratch = FrameScratch()
        if expected > self.first and expected > self.end:
            self.break_reason = f"no file holds frame {self.end}"
            return
        while limit is None or expected < limit:
            header = self._next(data, position, slot, expected)
            if header is None:
                self._look_beyond(data, position, slot)
                return
            self.known_durable = max(self.known_durable, header.durable)
            if expected >= self.first:
                entries = list(read_entries(data, position, header, scratch))
                yield ReplayedFrame(expected, entries, slot.path, FilePosition(position))
                self.end = Sequence(expected + 1)
            expected = Sequence(expected + 1)
            position += header.bytes

    def _next(self, data: memoryview, position: int, slot: JournalSlot, expected: Sequence) -> FrameHeader | None:
        try:
            header = read_frame_header(data, position)
        except CorruptFrame as error:
            self.break_reason = f"{slot.path}, {error}"
            return None
        if header.generation != slot.header.generation or header.sequence != expected:
            self.break_reason = f"{slot.path}, byte {position}: a frame of an earlier use of the file"
            return None
        return header

    def _look_beyond(self, data: memoryview, position: int, slot: JournalSlot) -> None:
        """A later frame of this file that survived may know that what is missing had been durable."""
        rest = bytes(data[position:])
        mark = slot.header.generation.to_bytes(8, "little")
        found = rest.find(MAGIC)
        while found >= 0:
            if found % 8 == 0 and rest[found + 8 : found + 16] == mark:
                self._take_survivor(data, position + found, position)
            found = rest.find(MAGIC, found + 1)

    def _take_survivor(self, data: memoryview, at: int, broken_at: int) -> None:
        try:
            header = read_frame_header(data, at)
        except CorruptFrame:
            return
        self.known_durable = max(self.known_durable, header.durable)
        self.torn_bytes = max(self.torn_bytes, at + header.bytes - broken_at)


def _write_again(file: File) -> None:
    for position in range(0, file.size(), _COPY_BYTES):
        file.write(FilePosition(position), [file.read(FilePosition(position), _COPY_BYTES)])


def entry_of(log: int, kind: int, data: memoryview) -> Entry:
    """An entry of a replayed frame as it was when it was staged; the bytes are not copied."""
    if kind == KIND_EDIT:
        return Entry(LogNumber(log), data, decode_edit(data))
    if kind != KIND_BATCH:
        raise CorruptFrame(f"an entry of log {log} has the unknown kind {kind}")
    header = read_header(data)
    end = next_offset(data)
    times = header.base_timestamp, header.max_timestamp
    return Entry(LogNumber(log), data, None, header.base_offset, end, header.count, *times)
