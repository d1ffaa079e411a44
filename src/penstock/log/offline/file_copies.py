"""Files from one directory tree to another: copied with their checksum, or linked where the file system can."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.ports import Disk, File
from penstock.core.types import FilePosition
from penstock.kernels.crc import crc32c
from penstock.log.disk import RealDisk

_PIECE_BYTES = 1 << 20
# Another file system, one without links, or one more link than it can count.
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)


@dataclass(frozen=True, slots=True)
class Copied:
    bytes: int
    crc32c: int
    linked: bool = False


@dataclass(slots=True)
class Copier:
    """From `source` to `target`. Durable after sync()."""

    source: RealDisk
    target: RealDisk
    directories: set[str] = field(default_factory=lambda: {""})

    def copy(self, path: str, size: int | None = None) -> Copied:
        """The first `size` bytes, or all; fewer if the file is shorter. FileNotFoundError if it is absent."""
        return self._copy(self.source, path, path, size)

    def put(self, path: str, data: bytes) -> Copied:
        return self._write(path, iter([data]))

    def link(self, path: str) -> bool:
        """The same file under a second name, so that it cannot vanish; False where the file system cannot do that."""
        self._enter(path)
        old, new = self.source.root.resolve() / path, self.target.root.resolve() / path
        common = RealDisk(Path(os.path.commonpath([old, new])))
        try:
            common.link(str(old.relative_to(common.root)), str(new.relative_to(common.root)))
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
        return True

    def checked_link(self, path: str, size: int) -> Copied:
        """What a file that was linked holds in its first `size` bytes."""
        found = checksum(self.target, path, size)
        return Copied(found.bytes, found.crc32c, linked=True)

    def unshare(self, path: str, size: int) -> Copied:
        """Put a copy in the place of a file that was linked."""
        linked = f"{path}.linked"
        self.target.rename(path, linked)
        copied = self._copy(self.target, linked, path, size)
        self.target.unlink(linked)
        return copied

    def sync(self) -> None:
        """The names; the bytes of each file were synced when it was written."""
        for directory in sorted(self.directories, reverse=True):
            self.target.sync_directory(directory)

    def _copy(self, disk: RealDisk, path: str, to_path: str, size: int | None) -> Copied:
        file = disk.open_read(path)
        try:
            return self._write(to_path, pieces(file, file.size() if size is None else size))
        finally:
            file.close()

    def _write(self, path: str, data: Iterator[bytes]) -> Copied:
        self._enter(path)
        file = self.target.create(path)
        size = crc = 0
        try:
            for piece in data:
                file.write(FilePosition(size), [piece])
                size, crc = size + len(piece), crc32c(piece, crc)
            file.sync()
        finally:
            file.close()
        return Copied(size, crc)

    def _enter(self, path: str) -> None:
        directory = path.rpartition("/")[0]
        self.target.make_directory(directory)
        while directory:
            self.directories.add(directory)
            directory = directory.rpartition("/")[0]


def pieces(file: File, size: int) -> Iterator[bytes]:
    position = 0
    while position < size and (piece := file.read(FilePosition(position), min(_PIECE_BYTES, size - position))):
        yield piece
        position += len(piece)


def checksum(disk: Disk, path: str, size: int) -> Copied:
    """Of the first `size` bytes, or of as many as there are."""
    file = disk.open_read(path)
    found = crc = 0
    try:
        for piece in pieces(file, size):
            found, crc = found + len(piece), crc32c(piece, crc)
    finally:
        file.close()
    return Copied(found, crc)
