"""How much may be read and written at a time: readers that streams take turns with, bounds for all and for each
client."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.core.errors import Closed
from penstock.tables.table import TableDirectory

_IDLE_READERS = 4


class Readers:
    """Any thread. A reader is used by one at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._idle: list[TableDirectory] = []

    @contextmanager
    def one(self) -> Iterator[TableDirectory]:
        with self._lock:
            found = self._idle.pop() if self._idle else None
        reader = found or TableDirectory(self._directory)
        try:
            yield reader
        finally:
            with self._lock:
                is_kept = len(self._idle) < _IDLE_READERS
                if is_kept:
                    self._idle.append(reader)
            if not is_kept:
                reader.close()


class Budget:
    """Any thread. Bytes that all streams together may hold beside what they received."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes, self._taken_bytes = limit_bytes, 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, size_bytes: int) -> Iterator[None]:
        """Waits for others; one that is larger than all there is may go alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken_bytes or self._taken_bytes + size_bytes <= self._limit_bytes)
            self._taken_bytes += size_bytes
        try:
            yield
        finally:
            with self._changed:
                self._taken_bytes -= size_bytes
                self._changed.notify_all()


class Streams:
    """Any thread."""

    def __init__(self, limit: int, limit_per_client: int) -> None:
        self._limit, self._limit_per_client = limit, limit_per_client
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, client: str) -> Iterator[None]:
        """Closed, with advice, if there are too many."""
        with self._lock:
            if self._open[client] >= self._limit_per_client:
                raise Closed(
                    f"you have {self._open[client]} streams open, which is max_streams_per_client: read these first"
                )
            if self._open.total() >= self._limit:
                raise Closed(f"{self._limit} streams are open, which is max_streams: try again in a moment")
            self._open[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[client] -= 1
                self._open += Counter()
