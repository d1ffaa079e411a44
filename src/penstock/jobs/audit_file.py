"""The file of a segment: its batches in bulk, and behind bytes that are none, the next good one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.core.errors import CorruptBatch, LogDamaged
from penstock.core.ports import Buffer, Disk
from penstock.jobs.findings import Kind
from penstock.log.batch import Batch, read_header
from penstock.log.header import MAGIC
from penstock.log.journal.frames import Entry
from penstock.log.reading.walk import MAX_WINDOW_BYTES, LearnedIndex, checked_runs
from penstock.log.records import SegmentInfo

_ALIGNMENT = 8


class Check(Protocol):
    """What takes the batches, and is told of what is none."""

    segments: int
    file: memoryview

    @property
    def next_offset(self) -> int: ...
    @property
    def records(self) -> int: ...

    def take(self, data: Buffer, path: str, position: int) -> None: ...
    def expect(self, first: int, path: str) -> None: ...
    def pass_to(self, offset: int) -> None: ...
    def found(self, kind: Kind, path: str, offset: int, reason: str, position: int = -1) -> object: ...


def check_segment(
    check: Check, disk: Disk, path: str, in_file: SegmentInfo, pending: Sequence[Entry], whole: SegmentInfo
) -> None:
    """`in_file` is what of the segment its file holds, `pending` what only the journal does."""
    check.segments += 1
    check.expect(whole.base, path)
    before, is_whole = check.records, True
    if in_file.bytes:
        is_whole = _FileCheck(check, path, in_file).run(disk)
    for entry in pending:
        check.take(entry.data, f"{path} (in the journal)", -1)
    if is_whole:
        if (records := check.records - before) != whole.records:
            reason = f"it has {records} records, {whole.records} are on the books"
            check.found(Kind.BOOKS, path, whole.base, reason)
        check.expect(whole.end, path)
    check.pass_to(whole.end)


@dataclass(slots=True)
class _Mapped:
    """Bytes of a file, as walks over segments want them."""

    log: str
    path: str
    size: int
    data: memoryview
    learned: LearnedIndex | None = None

    def window(self, position: int, size: int) -> memoryview:
        return self.data[position : position + size]

    def entry_before_offset(self, offset: int) -> tuple[int, int] | None:
        return None

    def entry_before_time(self, timestamp: int) -> tuple[int, int] | None:
        return None


class _FileCheck:
    def __init__(self, check: Check, path: str, info: SegmentInfo) -> None:
        self._check, self._path, self._info = check, path, info
        self._position = 0

    def run(self, disk: Disk) -> bool:
        """False if something in it cannot be read, which was told."""
        data = _mapped(disk, self._path)
        if data is None:
            reason = f"the file is missing; offsets {self._info.base}..{self._info.end} cannot be read"
            self._check.found(Kind.MISSING_FILE, self._path, self._info.base, reason, 0)
            return False
        size = min(len(data), self._info.bytes)
        self._check.file = data[:size]
        is_whole = self._batches(_Mapped("", self._path, size, data[:size]))
        if len(data) < self._info.bytes:
            self._damaged(self._info.end, f"the file ends, {self._info.bytes} bytes were written")
            return False
        return is_whole

    def _batches(self, source: _Mapped) -> bool:
        is_whole = True
        while self._position < source.size:
            try:
                for data, _ in checked_runs(source, self._position, MAX_WINDOW_BYTES):
                    self._check.take(data, self._path, self._position)
                    self._position += len(data)
            except LogDamaged as error:
                self._position, is_whole = error.position, False
                self._skip(source.data, error.reason)
        return is_whole

    def _skip(self, data: memoryview, reason: str) -> None:
        """To the next good batch, or to the end."""
        following = next(_good_after(data, self._position), len(data))
        behind = self._info.end
        if following < len(data):
            behind = max(self._check.next_offset, read_header(data, following).base_offset)
        self._damaged(behind, reason)
        self._position = following

    def _damaged(self, behind: int, reason: str) -> None:
        first = self._check.next_offset
        if first < behind:
            reason = f"{reason}; offsets {first}..{behind} cannot be read"
        self._check.found(Kind.DAMAGED, self._path, first, reason, self._position)
        self._check.pass_to(behind)


def _mapped(disk: Disk, path: str) -> memoryview | None:
    try:
        file = disk.open_read(path)
    except FileNotFoundError:
        return None
    try:
        return file.map() if file.size() else memoryview(b"")
    finally:
        file.close()


def _good_after(data: memoryview, position: int) -> Iterator[int]:
    """Where the bad batch says it ends comes first: a value inside it may look like a batch."""
    try:
        said = position + read_header(data, position).total_bytes
        if _is_good(data, said):
            yield said
    except CorruptBatch:
        pass  # it does not even say that
    rest = bytes(data[position:])
    found = rest.find(MAGIC, 1)
    while found >= 0:
        if found % _ALIGNMENT == 0 and _is_good(data, position + found):
            yield position + found
        found = rest.find(MAGIC, found + 1)


def _is_good(data: memoryview, position: int) -> bool:
    try:
        size = read_header(data, position).total_bytes
        Batch.parse(data[position : position + size])
    except CorruptBatch:
        return False
    return True
