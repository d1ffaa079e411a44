"""What a backup consists of: its manifest, and the rules for the directories that backups are written to and restored
into."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from penstock.core.errors import DirectoryFormat, ErrorCode, InvalidArgument, PenstockError
from penstock.core.types import FilePosition
from penstock.log.disk import LOCK_FILE, RealDisk
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.offline.offline import OfflineShard

MANIFEST_PATH = "backup.json"
MANIFEST_FORMAT = 1

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


def log_lines(shard: OfflineShard) -> list[BackupLog]:
    logs = [log for number, log in shard.keeper.logs.items() if number != CATALOGUE_NUMBER]
    return [BackupLog(log.name, log.bounds.start, log.bounds.end) for log in logs]


def refuse_unless_empty(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise InvalidArgument(f"{target} is a file: name a directory that is empty or not there")
    held = [path.name for path in target.iterdir() if path.name != "lost+found"]
    if held:
        raise InvalidArgument(
            f"{target} is not empty (it holds {held[0]!r}): name a directory that is empty or not there"
        )


def empty_directory(directory: Path) -> None:
    """Take back what was written to a directory that was empty before."""
    if not directory.exists():
        return
    for path in directory.iterdir():
        if path.is_dir() and path.name != "lost+found":
            shutil.rmtree(path)
        elif path.name not in ("lost+found", LOCK_FILE):
            path.unlink()
