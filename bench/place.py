"""Where benchmarks write: a directory of their own on a file system whose name is part of the result."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
_MOUNTS = Path("/proc/mounts")
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})


@dataclass(frozen=True, slots=True)
class FileSystem:
    kind: str
    mount: str
    device: str

    @property
    def is_in_memory(self) -> bool:
        """A sync costs nothing there, so whatever waits for one looks fast."""
        return self.kind in _IN_MEMORY


def file_system_of(path: Path) -> FileSystem:
    """The mount that holds the path; of several on one mount point, the last, which hides the others."""
    if not _MOUNTS.exists():
        return FileSystem("unknown", "", "")
    found, target = FileSystem("unknown", "", ""), path.resolve()
    for line in _MOUNTS.read_text().splitlines():
        device, mount, kind = line.split()[:3]
        mount = mount.encode().decode("unicode_escape")
        if target.is_relative_to(mount) and len(mount) >= len(found.mount):
            found = FileSystem(kind, mount, device)
    return found


@contextmanager
def empty_directory(parent: Path, name: str) -> Iterator[Path]:
    """Gone afterwards, whatever happened."""
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
