"""`penstock backup` and `penstock restore`: a copy of a data directory that its broker goes on writing to, and the way
back.

A backup is what a crash would have left: the checkpoint, the segments it names (sealed ones as hard links: nobody
writes to them again) and the journal from there on. The order makes it consistent: first the checkpoint is read, then
what it names is linked, so that it stays, then the journal is copied, its newest file first and each only as far as its
frames continue each other. So no frame in the copy knows of one as durable that the copy lacks. The long copying comes
after that and races with nothing. What vanished before it could be linked is either explained by an edit in that
journal, or a newer checkpoint is there to begin again from."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from penstock.core.errors import DirectoryFormat, InvalidArgument, JournalDamaged, LogDamaged
from penstock.core.types import FilePosition, LogName, LogNumber, Sequence
from penstock.log.disk import DirectoryLock, RealDisk
from penstock.log.journal.journal import DIRECTORY as JOURNAL_DIRECTORY
from penstock.log.journal.marks import PATH as MARK_PATH
from penstock.log.journal.marks import encode_mark, newest_mark
from penstock.log.journal.slots import JournalSlot, SlotWalk, journal_slots, read_slot
from penstock.log.names import CATALOGUE_NUMBER, directory_of
from penstock.log.offline.backup_files import (
    MANIFEST_FORMAT,
    BackupDamaged,
    BackupFile,
    BackupLog,
    Manifest,
    Progress,
    empty_directory,
    log_lines,
    read_manifest,
    refuse_unless_empty,
    write_manifest,
)
from penstock.log.offline.check import journal_reader, known_checkpoint
from penstock.log.offline.file_copies import Copied, Copier
from penstock.log.offline.offline import OfflineShard, fold, segment_files
from penstock.log.offline.restore import RestoreReport, restore_backup
from penstock.log.segments.segments import segment_path
from penstock.log.upkeep.checkpoint import PATH as CHECKPOINT_PATH
from penstock.log.upkeep.checkpoint import Checkpoint, encode_checkpoint, read_checkpoint
from penstock.log.upkeep.copies import copy_paths
from penstock.log.upkeep.format_file import FORMAT_PATH, encode_format, is_ours, read_format
from penstock.log.upkeep.recovery import read_catalogue
from penstock.version import VERSION

__all__ = [
    "BackupDamaged",
    "BackupLog",
    "BackupReport",
    "Manifest",
    "Progress",
    "RestoreReport",
    "create_backup",
    "read_manifest",
    "restore_backup",
]

# A checkpoint comes every 30 s or 128 MiB; a backup that met one begins again, and does not meet one each time.
_ATTEMPTS = 20
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class BackupReport:
    target: Path
    state: str
    logs: tuple[BackupLog, ...]
    files: int
    bytes: int
    linked_bytes: int
    """of `bytes`, what takes no room of its own"""
    attempts: int


class _Moved(Exception):
    """The broker went on faster than the copy: begin again."""


def create_backup(directory: Path, target: Path, progress: Progress) -> BackupReport:
    """Back up a live, closed or crashed directory; it is not locked and not changed. Everything acknowledged before the
    call (durability `commit` or `interval`) is in it. Durable when this returns."""
    source = RealDisk(directory)
    if not is_ours(source) or not any(map(source.exists, copy_paths(CHECKPOINT_PATH))):
        raise DirectoryFormat(f"{directory} is not a Penstock data directory: it has no format or no checkpoint")
    if target.resolve().is_relative_to(directory.resolve()):
        raise InvalidArgument(f"{target} lies inside {directory}: choose a place outside of it")
    refuse_unless_empty(target)
    existed = target.exists()
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _Backup(source, RealDisk(target), progress).run(attempt)
        except (_Moved, FileNotFoundError) as error:
            reason = str(error)
            empty_directory(target)
            if DirectoryLock.holder(directory) is None:
                break  # nobody writes: it will not get better
            time.sleep(_PAUSE_S * attempt)
        except BaseException:
            empty_directory(target)
            if not existed and target.exists():
                target.rmdir()
            raise
    raise DirectoryFormat(
        f"{directory} cannot be backed up: {reason}. Look at it with `penstock log verify {directory}`"
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    path: str
    bytes: int
    sealed: bool


@dataclass(slots=True)
class _Backup:
    source: RealDisk
    target: RealDisk
    progress: Progress
    files: dict[str, Copied] = field(default_factory=dict)
    done_bytes: int = 0
    total_bytes: int = 0

    def run(self, attempt: int) -> BackupReport:
        state = "live" if DirectoryLock.holder(self.source.root) is not None else ""
        copier = Copier(self.source, self.target)
        checkpoint = self._take_small_files(copier)
        state = state or ("closed" if checkpoint.clean else "crashed")
        linked = self._linked(copier, self._wanted(checkpoint))
        self._take_journal(copier, checkpoint)
        self._refuse_damaged_journal(checkpoint)
        self._take_segments(copier, linked)
        shard = self._checked(copier)
        logs = tuple(log_lines(shard))
        copier.sync()
        self._write_manifest(checkpoint, shard, state, logs)
        RealDisk(self.target.root.parent).sync_directory("")
        sizes = [(copied.bytes, copied.linked) for copied in self.files.values()]
        total, shared = sum(size for size, _ in sizes), sum(size for size, is_linked in sizes if is_linked)
        return BackupReport(self.target.root, state, logs, len(sizes), total, shared, attempt)

    def _take_small_files(self, copier: Copier) -> Checkpoint:
        """As they were read, so that a damaged copy is not copied. The mark comes before the journal, which therefore
        holds what it says."""
        found, checkpoint, mark = read_format(self.source), known_checkpoint(self.source), newest_mark(self.source)
        small = {CHECKPOINT_PATH: b"".join(encode_checkpoint(checkpoint)), FORMAT_PATH: encode_format(found)}
        if mark is not None:
            small[MARK_PATH] = encode_mark(mark)
        for path, data in small.items():
            for each in copy_paths(path) if found.has_copies else (path,):
                self._done(each, copier.put(each, data))
        return checkpoint

    def _wanted(self, checkpoint: Checkpoint) -> list[_Wanted]:
        states = {LogNumber(state.number): state for state in checkpoint.logs}
        try:
            catalogue = read_catalogue(self.source, states.get(CATALOGUE_NUMBER))
        except LogDamaged as error:
            raise _Moved(str(error)) from error
        wanted: list[_Wanted] = []
        for number, state in states.items():
            if (record := catalogue.declared.get(number)) is None:
                continue
            directory = directory_of(LogName(record.name), number)
            wanted += [_Wanted(segment_path(directory, i.base, i.version), i.bytes, True) for i in state.sealed]
            if (active := state.active) is not None:
                wanted.append(_Wanted(segment_path(directory, active.base, active.version), active.bytes, False))
            wanted += [_Wanted(path, _size(self.source, path), False) for path in state.aside]
        return wanted

    def _linked(self, copier: Copier, wanted: list[_Wanted]) -> dict[_Wanted, bool]:
        """Which of the files are there, and whether they could be linked. What is missing may have been taken away by
        an edit that the journal will show: _checked() sees to that."""
        linked: dict[_Wanted, bool] = {}
        for file in wanted:
            try:
                linked[file] = copier.link(file.path)
            except FileNotFoundError:
                continue
        return linked

    def _take_segments(self, copier: Copier, linked: dict[_Wanted, bool]) -> None:
        self.total_bytes = self.done_bytes + sum(file.bytes for file in linked)
        for file, is_linked in linked.items():
            if not is_linked and not self.source.exists(file.path):
                continue
            if not is_linked:
                copied = copier.copy(file.path, file.bytes)
            elif file.sealed:
                copied = copier.checked_link(file.path, file.bytes)
            else:
                copied = copier.unshare(file.path, file.bytes)
            self._done(file.path, copied)

    def _take_journal(self, copier: Copier, checkpoint: Checkpoint) -> None:
        """Newest file first: whatever it says of older ones, they hold already. Each only as far as its frames go on,
        since what lies behind was written while it was read."""
        slots = journal_slots(self.source)
        first = Sequence(checkpoint.first_sequence)
        begin = max((i for i, slot in enumerate(slots) if slot.header.first_sequence <= first), default=0)
        limit: Sequence | None = None
        for slot in reversed(slots[begin:]):
            data = self._frames(slot, limit, first)
            self._done(slot.path, copier.put(slot.path, data))
            limit = slot.header.first_sequence
        copier.target.make_directory(JOURNAL_DIRECTORY)
        copier.directories.add(JOURNAL_DIRECTORY)

    def _frames(self, slot: JournalSlot, limit: Sequence | None, first: Sequence) -> bytes:
        file = self.source.open_read(slot.path)
        try:
            is_same = read_slot(file, slot.path) == slot
            data = file.read(FilePosition(0), file.size())
            is_same &= read_slot(file, slot.path) == slot
        finally:
            file.close()
        if not is_same:
            raise _Moved(f"{slot.path} is used for something else now")
        walk = SlotWalk(memoryview(data), slot, limit, first)
        deque(walk, maxlen=0)
        if limit is not None and walk.expected < limit:
            raise _Moved(f"{slot.path} ends at frame {walk.expected}, the next file begins with {limit}")
        return data[: walk.position]

    def _refuse_damaged_journal(self, checkpoint: Checkpoint) -> None:
        """A copy that ends before damage looks like one that ends where the journal did, so the original is asked. What
        looks like damage because it is just being written is whole when it is looked at again."""
        found = -1
        while True:
            reader = journal_reader(self.source, checkpoint)
            try:
                deque(reader.frames(), maxlen=0)
                return
            except JournalDamaged as error:
                if read_checkpoint(self.source) != checkpoint:
                    raise _Moved(str(error)) from error
                if error.sequence == found:
                    raise
                found = error.sequence

    def _checked(self, copier: Copier) -> OfflineShard:
        """The copy, folded as a recovery would: whole, or the attempt was in vain. Segments that came by an edit since
        the checkpoint are fetched."""
        shard = fold(self.target, segment_files(self.target, look_only=True))
        if shard.journal_damage is not None:
            raise _Moved(str(shard.journal_damage))
        if shard.catalogue_damage is not None:
            raise _Moved(str(shard.catalogue_damage))
        for log in shard.keeper.logs.values():
            for segment in log.sealed:
                if segment.path not in self.files:
                    file = _Wanted(segment.path, segment.info.bytes, True)
                    self._take_segments(copier, {file: copier.link(segment.path)})
                self._refuse_shorter(segment.path, segment.info.bytes)
            for active in [*log.full, log.active] if log.active is not None else log.full:
                if active.exists and active.path not in self.files:
                    file = _Wanted(active.path, active.written_bytes, True)  # it was adopted whole
                    self._take_segments(copier, {file: copier.link(active.path)})
                if active.exists:
                    self._refuse_shorter(active.path, active.written_bytes)
        return shard

    def _refuse_shorter(self, path: str, size: int) -> None:
        copied = self.files.get(path)
        if copied is None or copied.bytes < size:
            raise _Moved(f"{path} has {copied.bytes if copied else 0} of the {size} bytes it should have")

    def _write_manifest(
        self, checkpoint: Checkpoint, shard: OfflineShard, state: str, logs: tuple[BackupLog, ...]
    ) -> None:
        manifest = Manifest(
            MANIFEST_FORMAT,
            VERSION,
            datetime.now(UTC).isoformat(timespec="seconds"),
            state,
            checkpoint.first_sequence,
            shard.reader.end,
            logs,
            tuple(BackupFile(path, copied.bytes, copied.crc32c) for path, copied in sorted(self.files.items())),
        )
        write_manifest(self.target, manifest)

    def _done(self, path: str, copied: Copied) -> None:
        self.files[path] = copied
        self.done_bytes += copied.bytes
        self.total_bytes = max(self.total_bytes, self.done_bytes)
        self.progress(path, self.done_bytes, self.total_bytes)


def _size(disk: RealDisk, path: str) -> int:
    file = disk.open_read(path)
    try:
        return file.size()
    finally:
        file.close()
