"""Which bytes of a segment are good batches and which are not, and what of a log the journal's files still hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.core.errors import CorruptBatch
from penstock.core.ports import Disk
from penstock.core.types import LogNumber, Sequence
from penstock.log.batch import Batch, read_header
from penstock.log.header import MAGIC
from penstock.log.journal.frames import Entry, FrameScratch, read_entries
from penstock.log.journal.replay import entry_of
from penstock.log.journal.slots import SlotWalk, journal_slots, known_durable_in, map_slot
from penstock.log.records import SegmentInfo


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a file that should be batches and are not; offsets first..end cannot be read from it."""

    path: str
    position: int
    bytes: int
    first: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}, byte {self.position}: {self.reason}; offsets {self.first}..{self.end} cannot be read"


@dataclass(frozen=True, slots=True)
class Survey:
    """A segment file up to the bytes it is trusted for."""

    batches: list[Entry]
    """the good ones, in order; their bytes lie in the mapped file"""
    damages: list[Damage]


def survey(disk: Disk, log: LogNumber, path: str, info: SegmentInfo) -> Survey:
    """Check every batch. Behind a bad one it goes on at the next good one."""
    try:
        file = disk.open_read(path)
    except FileNotFoundError:
        return Survey([], [Damage(path, 0, 0, info.base, info.end, "the file is missing")])
    data = file.map()
    file.close()
    return _Surveyor(log, path, info, data).run()


@dataclass(slots=True)
class _Surveyor:
    log: LogNumber
    path: str
    info: SegmentInfo
    data: memoryview

    def run(self) -> Survey:
        good: list[Entry] = []
        damages: list[Damage] = []
        size, position, offset = min(self.info.bytes, len(self.data)), 0, self.info.base
        while position < size:
            try:
                entry = self._batch(position, size, offset)
            except CorruptBatch as error:
                stop, after = self._next_good(position, size, offset)
                damages.append(Damage(self.path, position, stop - position, offset, after, error.reason))
                position, offset = stop, after
                continue
            good.append(entry)
            position, offset = position + len(entry.data), entry.end
        if size < self.info.bytes:
            damages = self._with_missing_end(damages, size, offset)
        return Survey(good, damages)

    def _with_missing_end(self, damages: list[Damage], size: int, offset: int) -> list[Damage]:
        reason = f"the file ends, {self.info.bytes} bytes were written"
        if damages and damages[-1].position + damages[-1].bytes == size:
            last = damages.pop()
            return [*damages, Damage(self.path, last.position, last.bytes, last.first, self.info.end, reason)]
        return [*damages, Damage(self.path, size, 0, offset, self.info.end, reason)]

    def _batch(self, position: int, size: int, lowest: int) -> Entry:
        """The batch at `position`, good in every respect and where it belongs; CorruptBatch otherwise."""
        header = read_header(self.data[:size], position)
        piece = self.data[position : position + header.total_bytes]
        if len(piece) < header.total_bytes or position + header.total_bytes > size:
            raise CorruptBatch(f"it claims {header.total_bytes} bytes and the file has {size - position}", position)
        end = Batch.parse(piece).next_offset
        if header.base_offset < lowest or end > self.info.end:
            raise CorruptBatch(f"offsets {header.base_offset}..{end} do not belong behind {lowest}", position)
        times = header.base_timestamp, header.max_timestamp
        return Entry(self.log, piece, None, header.base_offset, end, header.count, *times)

    def _next_good(self, position: int, size: int, lowest: int) -> tuple[int, int]:
        """Where good bytes begin again, and their first offset; the end of the file and of the segment if nowhere."""
        for candidate in self._candidates(position, size):
            try:
                return candidate, self._batch(candidate, size, lowest).first
            except CorruptBatch:
                continue
        return size, self.info.end

    def _candidates(self, position: int, size: int) -> Iterator[int]:
        """Where the bad batch says it ends comes first: a value inside it may look like a batch."""
        try:
            yield position + read_header(self.data[:size], position).total_bytes
        except CorruptBatch:
            yield size
        rest = bytes(self.data[position:size])
        found = rest.find(MAGIC, 1)
        while found >= 0:
            if found % 8 == 0:
                yield position + found
            found = rest.find(MAGIC, found + 1)


@dataclass(frozen=True, slots=True)
class FoundFrame:
    sequence: Sequence
    entries: list[tuple[int, int, memoryview]]


def readable_frames(disk: Disk) -> Iterator[FoundFrame]:
    """Every frame that the journal's files hold from the beginning of their present use on, also those long
    checkpointed, in the order of their sequence. Behind a damaged one that was durable it goes on."""
    slots = journal_slots(disk)
    for i, slot in enumerate(slots):
        limit = slots[i + 1].header.first_sequence if i + 1 < len(slots) else None
        data, scratch = map_slot(disk, slot), FrameScratch()
        for position, header in SlotWalk(data, slot, limit, known_durable_in(data, slot, limit)):
            yield FoundFrame(header.sequence, list(read_entries(data, position, header, scratch)))


def batches_in_journal(disk: Disk, logs: set[LogNumber]) -> dict[LogNumber, list[Entry]]:
    """For each log the batches that the journal's files still hold, without those that a later cut took away."""
    found: dict[LogNumber, list[Entry]] = {log: [] for log in logs}
    for frame in readable_frames(disk):
        for log, kind, data in frame.entries:
            if (kept := found.get(LogNumber(log))) is None:
                continue
            entry = entry_of(log, kind, data)
            if entry.edit is None:
                kept.append(entry)
            elif (end := entry.edit.end) is not None:
                found[LogNumber(log)] = [batch for batch in kept if batch.end <= end]
    return found
