"""Small files that decide about everything large are there twice, with the same contents: `checkpoint` and
`checkpoint.2`. One of them whole is enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.core.ports import Disk
from penstock.core.types import FilePosition

T = TypeVar("T")
MISSING = "the file is missing"


class BadCopy(Exception):
    """What was read is not what was written. The text says why."""


@dataclass(frozen=True, slots=True)
class FileFault:
    """A file that is not as it must be, or a log, which is named then."""

    file: str
    reason: str
    log: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Copies(Generic[T]):
    """What could be read of the two; `faults` are those that could not."""

    found: list[T]
    faults: list[FileFault]

    @property
    def is_absent(self) -> bool:
        """Neither was ever written."""
        return not self.found and all(fault.reason == MISSING for fault in self.faults)


def copy_paths(path: str) -> tuple[str, str]:
    return path, f"{path}.2"


def read_copies(disk: Disk, path: str, decode: Callable[[bytes], T]) -> Copies[T]:
    """`decode` raises BadCopy. A copy whose first writing was cut off by a crash is no fault."""
    found: list[T] = []
    faults: list[FileFault] = []
    for each in copy_paths(path):
        try:
            found.append(decode(_contents(disk, each)))
        except FileNotFoundError:
            if not disk.exists(_new(each)):
                faults.append(FileFault(each, MISSING))
        except BadCopy as error:
            faults.append(FileFault(each, str(error)))
    return Copies(found, faults)


def write_copies(disk: Disk, path: str, contents: list[bytes]) -> None:
    """Replaces both; when this returns they are durable. Before that the old ones or the new ones are whole, and
    mostly both."""
    paths = copy_paths(path)
    for each in paths:
        file = disk.create(_new(each))
        try:
            file.write(FilePosition(0), contents)
            file.sync()
        finally:
            file.close()
    if not all(disk.exists(each) for each in paths):
        disk.sync_directory("")  # so that a crash leaves one that is on its way, not one that looks lost
    for each in paths:
        disk.rename(_new(each), each)
    disk.sync_directory("")


def _new(path: str) -> str:
    return f"{path}.new"


def _contents(disk: Disk, path: str) -> bytes:
    file = disk.open_read(path)
    try:
        return file.read(FilePosition(0), file.size())
    finally:
        file.close()
