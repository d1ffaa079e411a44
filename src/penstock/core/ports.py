"""What the rules need from the world: time and disk. Tests put their own behind these, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.core.types import FilePosition, TimestampMs

Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    def now_ms(self) -> TimestampMs:
        """Wall time; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds; never goes back, is set by nobody, goes on while the machine sleeps."""
        ...


class File(Protocol):
    """An open file. A write is durable after sync() returned; after a failed one nothing is known of earlier writes."""

    def write(self, position: FilePosition, buffers: Sequence[Buffer]) -> None:
        """Write all of the buffers, one behind the other. Short writes are continued; OSError leaves a part written."""
        ...

    def read(self, position: FilePosition, size: int) -> bytes:
        """Up to size bytes; fewer only at the end of the file."""
        ...

    def sync(self) -> None:
        """Data and size are on disk when this returns."""
        ...

    def begin_writing_back(self, start: int, stop: int) -> None:
        """The disk begins with these bytes while the caller goes on. They are durable after sync() alone."""
        ...

    def await_written_back(self, start: int, stop: int) -> None:
        """Until these are on their way no more, so that not too much is at a time."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Fill the file with zeros from its end up to size and sync it, so that later writes inside change no
        metadata."""
        ...

    def map(self) -> memoryview:
        """The file as it is now, read-only, without copying. Stays valid after close() and unlink."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory tree; paths are relative to its root, with `/`. A create, rename or unlink is durable after
    sync_directory() of its parent; a file's bytes after its sync()."""

    def open(self, path: str, makes: bool = False) -> File:
        """For reading and writing; FileNotFoundError if absent, unless it `makes` an empty one."""
        ...

    def open_many(self, paths: Sequence[str], makes: Sequence[bool]) -> list[File | None]:
        """As open(), each that `makes` with its directory; None for what did not work, of which open() tells."""
        ...

    def write_many(self, writes: Sequence[tuple[File, FilePosition, list[Buffer]]]) -> list[bool]:
        """As File.write(), each at most at the end of its file. Which were written whole; of the others nothing is
        known, and File.write() tells what stands in their way."""
        ...

    def open_read(self, path: str) -> File:
        """For reading only."""
        ...

    def create(self, path: str) -> File:
        """A new empty file for reading and writing; one that exists is cut to nothing."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty if it is absent."""
        ...

    def make_directory(self, path: str) -> None:
        """With parents; no error if it exists."""
        ...

    def remove_directory(self, path: str) -> None:
        """An empty one; no error if absent."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Replaces `new` atomically."""
        ...

    def unlink(self, path: str) -> None:
        """No error if absent."""
        ...

    def link(self, old: str, new: str) -> None:
        """A hard link."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def watch(self) -> None:
        """Call before the first write that sync_all() is to answer for."""
        ...

    def sync_all(self) -> bool:
        """Everything written since watch() is durable when this returns True: one call where thousands of files wait.
        False where that cannot be done, or could miss an error: nothing is known then. OSError if something could not
        be
        written; each file's own sync tells whether it was that one."""
        ...

    def free_bytes(self) -> int: ...

    def total_bytes(self) -> int: ...
