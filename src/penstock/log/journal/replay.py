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
from penstock.log.journal.frames import Entry, FrameScratch, read_entries
from penstock.log.journal.journal import UsedSlot
from penstock.log.journal.marks import PATH as MARK_PATH
from penstock.log.journal.marks import Mark
from penstock.log.journal.slots import (
    JournalSlot,
    SlotWalk,
    journal_slots,
    known_durable_in,
    last_generation,
    map_slot,
    slot_path,
    slot_paths,
)
from penstock.log.records import decode_edit
from penstock.log.upkeep.copies import copy_paths

_COPY_BYTES = 1 << 20


NO_GENERATION = Generation(0)


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
    lost: list[tuple[Sequence, Sequence]] = field(default_factory=list)
    """first and end of frames that surviving_frames() did not find"""
    _mark: Mark | None = None
    _is_unmarked: bool = False

    def __post_init__(self) -> None:
        self.end = self.first

    def rest_on(self, mark: Mark | None) -> None:
        """What is known of the journal from elsewhere must be true; None if that cannot be read."""
        self._mark, self._is_unmarked = mark, mark is None
        if mark is not None:
            self.known_durable = max(self.known_durable, mark.synced)

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
        reason = self._marks_fault() or (self.break_reason or "its file is missing")
        if self.end < self.known_durable or self._marks_fault():
            self.torn_bytes = 0
            raise JournalDamaged(self.end, self.known_durable, reason)

    def surviving_frames(self) -> Iterator[ReplayedFrame]:
        """As frames(), but it goes on behind damage and raises nothing: `lost` says which frames are missing that had
        been durable. Frames behind a tear that nobody knew as durable are cut as ever."""
        chain = self._chain(search=True)
        limits = [slot.header.first_sequence for slot in chain[1:]] + [None] * bool(chain)
        maps = [map_slot(self.disk, slot) for slot in chain]
        for slot, limit, data in zip(chain, limits, maps, strict=True):
            self.known_durable = max(self.known_durable, known_durable_in(data, slot, limit))
        scratch = FrameScratch()
        for slot, limit, data in zip(chain, limits, maps, strict=True):
            for position, header in SlotWalk(data, slot, limit, self.known_durable):
                if header.sequence >= self.first:
                    self._lose(header.sequence)
                    entries = list(read_entries(data, position, header, scratch))
                    yield ReplayedFrame(header.sequence, entries, slot.path, FilePosition(position))
                    self.end = Sequence(header.sequence + 1)
        self._lose(self.known_durable)

    def _lose(self, until: Sequence) -> None:
        if self.end < until:
            self.lost.append((self.end, until))
            self.end = until

    def _marks_fault(self) -> str:
        if self._is_unmarked:
            return f"neither of {' and '.join(copy_paths(MARK_PATH))}, which say how far it reaches, can be read"
        mark = self._mark
        if mark is None or self.last_generation >= mark.generation:
            return ""
        path = slot_path(mark.slot)
        state = "cannot be read" if self.disk.exists(path) else "is missing"
        return f"{path}, which begins with frame {mark.first_sequence}, {state}"

    def _chain(self, *, search: bool = False) -> list[JournalSlot]:
        """Files with frames at or above `first`, by generation. Others are free to be written over."""
        slots, paths = journal_slots(self.disk, search=search), slot_paths(self.disk)
        self.slots, self.last_generation = len(paths), last_generation(slots)
        begin = max((i for i, slot in enumerate(slots) if slot.header.first_sequence <= self.first), default=0)
        chain = slots[begin:]
        needed = {slot.path for slot in chain}
        self.free = [path for path in paths if path not in needed]
        return chain

    def _file(self, slot: JournalSlot, limit: Sequence | None) -> Iterator[ReplayedFrame]:
        if self.first < slot.header.first_sequence > self.end:
            self.break_reason = f"no file holds frame {self.end}"
            return
        data, scratch = map_slot(self.disk, slot), FrameScratch()
        walk = SlotWalk(data, slot, limit, self.first)
        for position, header in walk:
            self.known_durable = max(self.known_durable, header.durable)
            if header.sequence >= self.first:
                entries = list(read_entries(data, position, header, scratch))
                yield ReplayedFrame(header.sequence, entries, slot.path, FilePosition(position))
                self.end = walk.expected
        if limit is None or walk.expected < limit:
            self.break_reason = walk.reason
            self._look_beyond(walk)

    def _look_beyond(self, walk: SlotWalk) -> None:
        """A later frame of this file that survived may know that what is missing had been durable."""
        for position, header in walk.survivors():
            if header.sequence < walk.expected:
                continue
            self.known_durable = max(self.known_durable, header.durable)
            self.torn_bytes = max(self.torn_bytes, position + header.bytes - walk.position)


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
