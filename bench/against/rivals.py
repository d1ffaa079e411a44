"""What Penstock is held against: queues in one process, durable when a call returns."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path
from typing import Protocol

import persistqueue

_BUSY_S = 60.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS queue (id INTEGER PRIMARY KEY AUTOINCREMENT, value BLOB NOT NULL, taken_at REAL);
CREATE INDEX IF NOT EXISTS free ON queue (id) WHERE taken_at IS NULL;
"""
_TAKE = """
UPDATE queue SET taken_at = ? WHERE id = (SELECT id FROM queue WHERE taken_at IS NULL ORDER BY id LIMIT 1)
RETURNING id, value
"""


class Rival(Protocol):
    name: str

    def cycle(self, value: bytes) -> bytes:
        """Put a message, take one, acknowledge it; each is durable before the next."""
        ...

    def cycle_many(self, values: list[bytes]) -> list[bytes]:
        """Put all in one transaction, take and acknowledge as many in one."""
        ...

    def close(self) -> None: ...


class SqliteQueue:
    """The usual table, in WAL mode, synchronous=FULL, with a connection for each thread. A free message is found by an
    index of those alone."""

    name = "SQLite"

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._path = directory / "queue.sqlite"
        self._own = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._connection().executescript(_SCHEMA)

    def cycle(self, value: bytes) -> bytes:
        connection = self._connection()
        connection.execute("INSERT INTO queue (value) VALUES (?)", (value,))
        # Read to the end, or the statement stays open and its transaction with it.
        [(number, found)] = connection.execute(_TAKE, (time.time(),)).fetchall()
        connection.execute("DELETE FROM queue WHERE id = ?", (number,))
        return bytes(found)

    def cycle_many(self, values: list[bytes]) -> list[bytes]:
        connection = self._connection()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO queue (value) VALUES (?)", [(value,) for value in values])
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        found = connection.execute(
            "SELECT id, value FROM queue WHERE taken_at IS NULL ORDER BY id LIMIT ?", (len(values),)
        ).fetchall()
        connection.executemany("DELETE FROM queue WHERE id = ?", [(number,) for number, _ in found])
        connection.execute("COMMIT")
        return [bytes(value) for _, value in found]

    def close(self) -> None:
        for connection in self._open:
            connection.close()

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if found is None:
            found = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            found.execute("PRAGMA journal_mode=WAL")
            found.execute("PRAGMA synchronous=FULL")
            self._own.connection = found
            self._open.append(found)
        return found


class PersistQueue:
    """Its queue with acknowledgements for single messages; that one has no transactions, so its plain queue for many,
    where `task_done` commits."""

    name = "persist-queue"

    def __init__(self, directory: Path) -> None:
        self._acked = persistqueue.SQLiteAckQueue(str(directory / "acked"), multithreading=True, auto_commit=True)
        self._plain = persistqueue.SQLiteQueue(str(directory / "plain"), multithreading=True, auto_commit=False)

    def cycle(self, value: bytes) -> bytes:
        self._acked.put(value)
        item = self._acked.get(timeout=_BUSY_S, raw=True)
        self._acked.ack(item)
        found: bytes = item["data"]
        return found

    def cycle_many(self, values: list[bytes]) -> list[bytes]:
        for value in values:
            self._plain.put(value)
        self._plain.task_done()
        found = [self._plain.get(block=False) for _ in values]
        self._plain.task_done()
        return found

    def close(self) -> None:
        self._acked.close()
        self._plain.close()
