"""What the system does without us: the floor that a log cannot go below."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from penstock.core.ports import Buffer

_ZEROS = bytes(1 << 20)


class RawFile:
    """A file filled with zeros and synced before it is measured, as a journal's files are."""

    def __init__(self, path: Path, size: int) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        for position in range(0, size, len(_ZEROS)):
            os.pwrite(self._descriptor, _ZEROS[: size - position], position)
        os.fdatasync(self._descriptor)

    def write_synced(self, group: Sequence[Buffer], times: int) -> None:
        """One writev and one fdatasync, so many times, one behind the other."""
        size, position = sum(map(len, group)), 0
        for _ in range(times):
            if os.pwritev(self._descriptor, group, position) != size:
                raise OSError("a short write: the disk is full")
            os.fdatasync(self._descriptor)
            position += size

    def close(self) -> None:
        os.close(self._descriptor)


def drop_from_cache(directory: Path) -> None:
    """Make the next read of every file below come from the disk. Maps of them must be gone."""
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
