"""`penstock backup` and `penstock restore`: a copy of a data directory that its broker goes on writing to, and the way
back.

A backup is what a crash would have left: the checkpoint, the segments it names (sealed ones as hard links: nobody
writes to them again) and the journal from there on. The order makes it consistent: first the checkpoint is read, then
what it names is linked, so that it stays, then the journal is copied, its newest file first and each only as far as its
frames continue each other. So no frame in the copy knows of one as durable that the copy lacks. The long copying comes
after that and races with nothing. What vanished before it could be linked is either explained by an edit in that
journal, or a newer checkpoint is there to begin again from."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from penstock.core.errors import DirectoryFormat, ErrorCode, InvalidArgument, LogDamaged, PenstockError
from penstock.core.types import FilePosition, LogName, LogNumber, Sequence
from penstock.log.checkpoint import PATH as CHECKPOINT_PATH
from penstock.log.checkpoint import Checkpoint, read_checkpoint
from penstock.log.copying import Copied, Copier
from penstock.log.damage import frame_headers, journal_slots
from penstock.log.disk import LOCK_FILE, DirectoryLock, RealDisk
from penstock.log.journal import FILE_HEADER_BYTES, decode_slot_header
from penstock.log.mending import stretches_of
from penstock.log.names import CATALOGUE_NUMBER, directory_of
from penstock.log.offline import NUMBER_GAP, OfflineShard, directory_lock, empty_journal, fold, segment_files
from penstock.log.recovery import FORMAT_PATH, read_catalogue
from penstock.log.replay import JournalSlot
from penstock.log.segments import segment_path
from penstock.version import VERSION

MANIFEST_PATH = "backup.json"
MANIFEST_FORMAT = 1
# A checkpoint comes every 30 s or 128 MiB; a backup that met one begins again, and does not meet one each time.
_ATTEMPTS = 20
_PAUSE_S = 0.1

Progress = Callable[[str, int, int], None]
"""called with a file that is done, the bytes done and the bytes there are in all"""


class BackupDamaged(PenstockError):
    """A file of a backup is missing or is not what the manifest says."""

    code = ErrorCode.DIRECTORY_FORMAT

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"the backup is damaged: {path}: {reason}. Nothing was restored; use another backup")
        self.path, self.reason = path, reason


class BackupFile(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    crc32c: int


class BackupLog(msgspec.Struct, frozen=True):
    name: str
    start: int
    end: int


class Manifest(msgspec.Struct, frozen=True):
    """Written last: a directory without it is no backup."""

    format: int
    created_by: str
    created_at: str
    state: str
    """of the directory when it was copied: live, closed or crashed"""
    first_sequence: int
    end_sequence: int
    logs: tuple[BackupLog, ...]
    files: tuple[BackupFile, ...]


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


@dataclass(frozen=True, slots=True)
class RestoreReport:
    directory: Path
    logs: tuple[BackupLog, ...]
    """as they are now: each goes on 2^32 behind the last record that was in the backup"""
    files: int
    bytes: int
    records: int
    batches: int
    damages: tuple[str, ...] = ()
    """batches that were damaged in the original already: `penstock log repair` mends them"""


class _Moved(Exception):
    """The broker went on faster than the copy: begin again."""


def create_backup(directory: Path, target: Path, progress: Progress) -> BackupReport:
    """Back up a live, closed or crashed directory; it is not locked and not changed. Everything acknowledged before the
    call (durability `commit` or `interval`) is in it. Durable when this returns."""
    source = RealDisk(directory)
    if not source.exists(FORMAT_PATH) or not source.exists(CHECKPOINT_PATH):
        raise DirectoryFormat(f"{directory} is not a Penstock data directory: it has no format or no checkpoint")
    if target.resolve().is_relative_to(directory.resolve()):
        raise InvalidArgument(f"{target} lies inside {directory}: choose a place outside of it")
    _refuse_unless_empty(target)
    existed = target.exists()
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _Backup(source, RealDisk(target), progress).run(attempt)
        except (_Moved, FileNotFoundError) as error:
            reason = str(error)
            _empty(target)
            if DirectoryLock.holder(directory) is None:
                break  # nobody writes: it will not get better
            time.sleep(_PAUSE_S * attempt)
        except BaseException:
            _empty(target)
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
        self._done(CHECKPOINT_PATH, copier.copy(CHECKPOINT_PATH))
        checkpoint = read_checkpoint(self.target)
        assert checkpoint is not None
        state = state or ("closed" if checkpoint.clean else "crashed")
        self._done(FORMAT_PATH, copier.copy(FORMAT_PATH))
        linked = self._linked(copier, self._wanted(checkpoint))
        self._take_journal(copier, checkpoint)
        self._take_segments(copier, linked)
        shard = self._checked(copier)
        logs = tuple(_log_line(shard))
        copier.sync()
        self._write_manifest(checkpoint, shard, state, logs)
        RealDisk(self.target.root.parent).sync_directory("")
        sizes = [(copied.bytes, copied.linked) for copied in self.files.values()]
        linked = sum(size for size, is_linked in sizes if is_linked)
        total = sum(size for size, _ in sizes)
        return BackupReport(self.target.root, state, logs, len(sizes), total, linked, attempt)

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
        first = checkpoint.first_sequence
        begin = max((i for i, slot in enumerate(slots) if slot.header.first_sequence <= first), default=0)
        limit: Sequence | None = None
        for slot in reversed(slots[begin:]):
            data = self._frames(slot, limit)
            self._done(slot.path, copier.put(slot.path, data))
            limit = slot.header.first_sequence
        copier.target.make_directory("journal")
        copier.directories.add("journal")

    def _frames(self, slot: JournalSlot, limit: Sequence | None) -> bytes:
        file = self.source.open_read(slot.path)
        try:
            data = file.read(FilePosition(0), file.size())
            again = decode_slot_header(file.read(FilePosition(0), 64))
        finally:
            file.close()
        if decode_slot_header(data) != slot.header or again != slot.header:
            raise _Moved(f"{slot.path} was used anew")
        end, expected = FILE_HEADER_BYTES, slot.header.first_sequence
        for position, header in frame_headers(memoryview(data), slot, limit):
            end, expected = position + header.bytes, Sequence(header.sequence + 1)
        if limit is not None and expected < limit:
            raise _Moved(f"{slot.path} ends at frame {expected}, the next file begins with {limit}")
        return data[:end]

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


def write_manifest(target: RealDisk, manifest: Manifest) -> None:
    """By rename: it is there whole or not at all, and durable when this returns."""
    file = target.create(f"{MANIFEST_PATH}.new")
    try:
        file.write(FilePosition(0), [msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"])
        file.sync()
    finally:
        file.close()
    target.rename(f"{MANIFEST_PATH}.new", MANIFEST_PATH)
    target.sync_directory("")


def read_manifest(backup: Path) -> Manifest:
    try:
        file = RealDisk(backup).open_read(MANIFEST_PATH)
    except (FileNotFoundError, NotADirectoryError):
        raise DirectoryFormat(
            f"{backup} is not a backup, or one that was not finished: it has no {MANIFEST_PATH}"
        ) from None
    data = file.read(FilePosition(0), file.size())
    file.close()
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise BackupDamaged(MANIFEST_PATH, str(error)) from error
    if manifest.format > MANIFEST_FORMAT:
        raise DirectoryFormat(f"the backup has format {manifest.format}: use the newer Penstock that wrote it")
    return manifest


def restore_backup(backup: Path, directory: Path, progress: Progress) -> RestoreReport:
    """Copy a backup into an empty directory, check all of it and make it ready to be opened; durable when this returns.
    Until then the directory is refused by whoever tries to open it. Damage that the original had already is restored as
    it was and reported.

    Each log goes on at its end + 2^32: the original may have given the offsets behind it to other messages."""
    manifest = read_manifest(backup)
    _refuse_unless_empty(directory)
    directory.mkdir(parents=True, exist_ok=True)
    disk = RealDisk(directory)
    try:
        with directory_lock(disk):
            return _restore(manifest, RealDisk(backup), disk, progress)
    except BaseException:
        _empty(directory)
        raise


def _restore(manifest: Manifest, backup: RealDisk, disk: RealDisk, progress: Progress) -> RestoreReport:
    copier = Copier(backup, disk)
    total, done = sum(file.bytes for file in manifest.files), 0
    for file in manifest.files:
        if file.path != FORMAT_PATH:
            _restore_file(copier, file)
        done += file.bytes
        progress(file.path, done, total)
    copier.sync()
    seen = _verify(disk)
    logs = _make_ready(disk)
    # Last: without it, what a crash left of this is not taken for a data directory.
    for file in manifest.files:
        if file.path == FORMAT_PATH:
            _restore_file(copier, file)
    disk.sync_directory("")
    RealDisk(disk.root.parent).sync_directory("")
    return RestoreReport(disk.root, logs, len(manifest.files), total, seen.records, seen.batches, seen.damages)


def _restore_file(copier: Copier, file: BackupFile) -> None:
    try:
        copied = copier.copy(file.path, file.bytes)
    except FileNotFoundError:
        raise BackupDamaged(file.path, "it is missing") from None
    if copied.bytes != file.bytes:
        raise BackupDamaged(file.path, f"it has {copied.bytes} bytes, the manifest says {file.bytes}")
    if copied.crc32c != file.crc32c:
        raise BackupDamaged(file.path, "its checksum does not match")


@dataclass(frozen=True, slots=True)
class _Verified:
    batches: int
    records: int
    damages: tuple[str, ...]


def _verify(disk: RealDisk) -> _Verified:
    """Check every batch of every log."""
    shard = fold(disk, segment_files(disk, look_only=True))
    if (damage := shard.journal_damage or shard.catalogue_damage) is not None:
        raise damage
    parts = [(log.name, part) for log in shard.keeper.logs.values() for part in stretches_of(disk, log)]
    batches = [entry for _, part in parts for entry in part.batches]
    damages = tuple(f"log {name}: {damage}" for name, part in parts for damage in part.damages)
    return _Verified(len(batches), sum(entry.records for entry in batches), damages)


def _make_ready(disk: RealDisk) -> tuple[BackupLog, ...]:
    shard = fold(disk, segment_files(disk, look_only=False))
    shard.keeper.flush_all()
    shard.catalogue.next_number = LogNumber(shard.catalogue.next_number + NUMBER_GAP)
    shard.skip_offsets(shard.keeper.logs.values())
    shard.finish(shard.reader.end)
    empty_journal(disk)
    return tuple(_log_line(shard))


def _size(disk: RealDisk, path: str) -> int:
    file = disk.open_read(path)
    try:
        return file.size()
    finally:
        file.close()


def _log_line(shard: OfflineShard) -> list[BackupLog]:
    logs = [log for number, log in shard.keeper.logs.items() if number != CATALOGUE_NUMBER]
    return [BackupLog(log.name, log.bounds.start, log.bounds.end) for log in logs]


def _refuse_unless_empty(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise InvalidArgument(f"{target} is a file: name a directory that is empty or not there")
    held = [path.name for path in target.iterdir() if path.name != "lost+found"]
    if held:
        raise InvalidArgument(
            f"{target} is not empty (it holds {held[0]!r}): name a directory that is empty or not there"
        )


def _empty(directory: Path) -> None:
    """Take back what was written to a directory that was empty before."""
    if not directory.exists():
        return
    for path in directory.iterdir():
        if path.is_dir() and path.name != "lost+found":
            shutil.rmtree(path)
        elif path.name not in ("lost+found", LOCK_FILE):
            path.unlink()
