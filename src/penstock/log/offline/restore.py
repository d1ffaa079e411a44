"""`penstock restore`: a backup becomes a data directory again, checked to the last batch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.core.types import LogNumber
from penstock.log.disk import RealDisk, make_data_directory
from penstock.log.offline.backup_files import (
    BackupDamaged,
    BackupFile,
    BackupLog,
    Manifest,
    Progress,
    empty_directory,
    log_lines,
    read_manifest,
    refuse_unless_empty,
)
from penstock.log.offline.damaged_log import stretches_of
from penstock.log.offline.file_copies import Copier
from penstock.log.offline.offline import NUMBER_GAP, directory_lock, empty_journal, fold, segment_files
from penstock.log.upkeep.copies import copy_paths
from penstock.log.upkeep.format_file import FORMAT_PATH


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


def restore_backup(backup: Path, directory: Path, progress: Progress) -> RestoreReport:
    """Copy a backup into an empty directory, check all of it and make it ready to be opened; durable when this returns.
    Until then the directory is refused by whoever tries to open it. Damage that the original had already is restored as
    it was and reported.

    Each log goes on at its end + 2^32: the original may have given the offsets behind it to other messages."""
    manifest = read_manifest(backup)
    refuse_unless_empty(directory)
    make_data_directory(directory)
    disk = RealDisk(directory)
    try:
        with directory_lock(disk):
            return _restore(manifest, RealDisk(backup), disk, progress)
    except BaseException:
        empty_directory(directory)
        raise


def _restore(manifest: Manifest, backup: RealDisk, disk: RealDisk, progress: Progress) -> RestoreReport:
    copier = Copier(backup, disk)
    total, done = sum(file.bytes for file in manifest.files), 0
    for file in manifest.files:
        if file.path not in copy_paths(FORMAT_PATH):
            _restore_file(copier, file)
        done += file.bytes
        progress(file.path, done, total)
    copier.sync()
    seen = _verify(disk)
    logs = _make_ready(disk)
    # Last: without it, what a crash left of this is not taken for a data directory.
    for file in manifest.files:
        if file.path in copy_paths(FORMAT_PATH):
            _restore_file(copier, file)
    disk.sync_directory("")
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
    return tuple(log_lines(shard))
