"""The mapped table of a shard: how far each log may be read by other processes, moved as one cut under a sequence lock.

The file `table` lives as long as its writer and does not count after it: a reader takes it only while the process
that it names holds the directory."""

from __future__ import annotations

import hashlib
import logging
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from penstock.core.ports import Disk
from penstock.core.types import FilePosition, LogNumber
from penstock.kernels import table as kernel
from penstock.log.disk import DirectoryLock, Followers, LockHolder, RealDisk
from penstock.log.reading.manifest import Manifest, write_manifest
from penstock.log.segments.keeper import Keeper
from penstock.log.segments.written import WrittenLog

logger = logging.getLogger("penstock.log.table")

PATH = "table"
MAGIC = int.from_bytes(b"PSTTABLE", "little")
VERSION = 1
_MAGIC, _VERSION, _START_NUMBER, _SEQUENCE, _ROWS, _CAPACITY, _SUPERSEDED, _HOLDER = range(8)
_HEADER_WORDS = 16
_FIRST_CAPACITY = 64
_NO_LOG = -1
# Of a row: no active segment.
_NONE = (-1, 0, 0, 0)
# A writer is inside for microseconds; one that is inside for this many looks has died there or sleeps.
_LOOKS = 2000


class TableRow(NamedTuple):
    """A log at the cut. Its sealed segments are in the manifest of `list_version`; `active_base` is -1 without one."""

    number: int
    start: int
    end: int
    list_version: int
    sealed_count: int
    sealed_records: int
    active_base: int
    active_version: int
    active_bytes: int
    active_records: int


_ROW_WORDS = len(TableRow._fields)


def holder_mark(holder: LockHolder | None) -> int:
    """Tells one holder of a directory from another, in an int64."""
    if holder is None:
        return 0
    text = f"{holder.pid} {holder.since} {holder.command}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little")


def retire_table(disk: Disk) -> None:
    """First thing when a directory is opened: whoever still has the table of an earlier life mapped is told."""
    if not disk.exists(PATH):
        return
    file = disk.open(PATH)
    try:
        if file.size() >= 8 * _HEADER_WORDS:
            file.write(FilePosition(8 * _SUPERSEDED), [(1).to_bytes(8, "little")])
    finally:
        file.close()
    disk.unlink(PATH)


class TableWriter:
    """Keeper thread only. A cut is never past what is synced in the journal, written in the segments and visible."""

    def __init__(self, disk: RealDisk, start_number: int, capacity: int = _FIRST_CAPACITY) -> None:
        """The caller holds the directory's lock."""
        self._disk, self._start_number = disk, start_number
        self._holder = holder_mark(DirectoryLock.holder(disk.root))
        self._slots: dict[LogNumber, int] = {}
        self._rows: list[TableRow] = []
        self._waiting: dict[LogNumber, WrittenLog] = {}
        """changed, and not in the table because the disk is full"""
        self.followers = Followers(disk.root)
        self._words = self._new_file(capacity)

    def publish(self, logs: Iterable[WrittenLog]) -> None:
        """Move the cut: all of these logs at once. On a full disk it stays where it is until the next call."""
        self._waiting |= {log.number: log for log in logs}
        if not self._waiting:
            return
        try:
            rows = [self._row(log) for log in self._waiting.values()]
            self._make_room(rows)
        except OSError as error:
            logger.warning("readers in other processes are held back, their table cannot be written error=%s", error)
            return
        self._waiting = {}
        kernel.begin(self._words, _SEQUENCE)
        for row in rows:
            self._put(row)
        kernel.store(self._words, _ROWS, len(self._rows))
        kernel.end(self._words, _SEQUENCE)

    def remove(self, number: LogNumber) -> None:
        """The log was deleted: the last row takes the place of its row."""
        self._waiting.pop(number, None)
        slot = self._slots.pop(number, None)
        if slot is None:
            return
        last = self._rows.pop()
        kernel.begin(self._words, _SEQUENCE)
        kernel.store(self._words, _HEADER_WORDS + len(self._rows) * _ROW_WORDS, _NO_LOG)
        if last.number != number:
            self._slots[LogNumber(last.number)] = slot
            self._put(last)
        kernel.store(self._words, _ROWS, len(self._rows))
        kernel.end(self._words, _SEQUENCE)

    def close(self) -> None:
        """Readers go by the checkpoint from now on."""
        kernel.store(self._words, _SUPERSEDED, 1)
        self._disk.unlink(PATH)
        self.followers.close()

    def _row(self, log: WrittenLog) -> TableRow:
        """Of one that is held back, what was written of it before."""
        if log.pending_bytes:
            slot, start = self._slots.get(log.number), log.bounds.start
            return TableRow(log.number, start, start, 0, 0, 0, *_NONE) if slot is None else self._rows[slot]
        sealed_records = self._listed_records(log)
        bounds, segment = log.bounds, log.active
        active = _NONE
        if segment is not None and segment.exists:
            active = segment.base, segment.version, segment.written_bytes, segment.records
        return TableRow(
            log.number, bounds.start, bounds.end, log.list_version, len(log.sealed), sealed_records, *active
        )

    def _listed_records(self, log: WrittenLog) -> int:
        """Records in sealed segments; when the list has changed, it is written first."""
        slot = self._slots.get(log.number)
        if slot is not None and self._rows[slot].list_version == log.list_version:
            return self._rows[slot].sealed_records
        infos = tuple(segment.info for segment in log.sealed)
        if infos:
            write_manifest(self._disk, log.directory, Manifest(self._start_number, log.list_version, infos))
        return sum(info.records for info in infos)

    def _put(self, row: TableRow) -> None:
        """Between begin and end."""
        slot = self._slots.setdefault(LogNumber(row.number), len(self._rows))
        if slot == len(self._rows):
            self._rows.append(row)
        self._rows[slot] = row
        for word, value in enumerate(row, _HEADER_WORDS + slot * _ROW_WORDS):
            kernel.store(self._words, word, value)

    def _make_room(self, rows: list[TableRow]) -> None:
        wanted = len(self._rows) + sum(row.number not in self._slots for row in rows)
        if wanted <= self._words[_CAPACITY]:
            return
        old, self._words = self._words, self._new_file(max(wanted, 2 * self._words[_CAPACITY]))
        kernel.store(old, _SUPERSEDED, 1)

    def _new_file(self, capacity: int) -> memoryview:
        """A table with the rows there are, in the place of the one there was; maps of that keep what it had."""
        file = self._disk.create(f"{PATH}.new")
        try:
            # Not sparse: a store into a hole of a full disk would kill the process.
            file.allocate(8 * (_HEADER_WORDS + capacity * _ROW_WORDS))
            words = file.map_shared().cast("q")
        finally:
            file.close()
        words[:_HEADER_WORDS] = self._header(capacity)
        for slot, row in enumerate(self._rows):
            at = _HEADER_WORDS + slot * _ROW_WORDS
            words[at : at + _ROW_WORDS] = memoryview(array("q", row))
        self._disk.rename(f"{PATH}.new", PATH)
        return words

    def _header(self, capacity: int) -> memoryview:
        words = array("q", bytes(8 * _HEADER_WORDS))
        words[_MAGIC], words[_VERSION], words[_START_NUMBER] = MAGIC, VERSION, self._start_number
        words[_ROWS], words[_CAPACITY], words[_HOLDER] = len(self._rows), capacity, self._holder
        return memoryview(words)


def publish_from(disk: RealDisk, keeper: Keeper) -> TableWriter:
    """A table of all logs as they are now, kept up to date by the keeper from here on. Call when recovery is done,
    before the keeper's thread runs."""
    writer = TableWriter(disk, keeper.checkpoint.start_number)
    writer.publish(keeper.logs.values())
    keeper.publish_cut, keeper.deleted = writer.publish, writer.remove
    keeper.is_followed = writer.followers.are_there
    return writer


class TableReader:
    """One life of a table, as another process sees it. `is_current` False: open the directory's table anew."""

    def __init__(self, words: memoryview) -> None:
        self._words = words
        self.start_number, self.holder = words[_START_NUMBER], words[_HOLDER]
        self._slots: dict[int, int] = {}

    @classmethod
    def open(cls, disk: Disk) -> TableReader | None:
        """None where there is no table, or none of this version."""
        try:
            file = disk.open_read(PATH)
        except FileNotFoundError:
            return None
        try:
            data = file.map()
        finally:
            file.close()
        if len(data) < 8 * _HEADER_WORDS or len(data) % 8:
            return None
        words = data.cast("q")
        return cls(words) if (words[_MAGIC], words[_VERSION]) == (MAGIC, VERSION) else None

    @property
    def is_current(self) -> bool:
        return not self._words[_SUPERSEDED]

    def row(self, number: int) -> TableRow | None:
        """One log at the cut; None if it is not there, or if no consistent look was to be had."""
        slot = self._slots.get(number)
        words = self._load(_HEADER_WORDS + slot * _ROW_WORDS, _ROW_WORDS) if slot is not None else None
        if words is not None and words[0] == number:
            return TableRow(*words)
        rows = self.rows()
        return next((row for row in rows if row.number == number), None) if rows is not None else None

    def rows(self) -> list[TableRow] | None:
        """Every log, at one cut; None if no consistent look was to be had."""
        words = self._load(_SEQUENCE, len(self._words) - _SEQUENCE)
        if words is None:
            return None
        first, count = _HEADER_WORDS - _SEQUENCE, words[_ROWS - _SEQUENCE]
        starts = range(first, first + count * _ROW_WORDS, _ROW_WORDS)
        rows = [TableRow(*words[at : at + _ROW_WORDS]) for at in starts]
        self._slots = {row.number: slot for slot, row in enumerate(rows)}
        return rows

    def _load(self, first: int, count: int) -> array[int] | None:
        out = array("q", bytes(8 * count))
        for _ in range(_LOOKS):
            if kernel.load_consistent(self._words, out, _SEQUENCE, first, count):
                return out
        return None
