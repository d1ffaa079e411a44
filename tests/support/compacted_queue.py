"""A queue with many small segments, that can be compacted while somebody reads it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from tests.support.numbered import until_end
from tests.support.whole_rows import who_and_which, whole_value

import penstock
from penstock.embedded.database import Database
from penstock.log.records import LogSettings
from penstock.tables.table import QueueTable

QUEUE = "prices"
ROWS = 40_000
"""of 1 KiB: more than lies between a reader and whoever takes its rows"""
COMPACTION = {"compaction": {"enabled": True, "lag": "0s", "interval": "1s"}}
_COMMIT_ROWS, _VALUE_BYTES, _SEGMENT_BYTES = 500, 1024, 1 << 20
_KEYS = 200
_DEADLINE_S = 60.0


def fill(database: Database) -> None:
    """One partition, in segments of 1 MiB; not compacted before its settings say COMPACTION. Readers of the directory
    see all of it when this returns."""
    database.declare(QUEUE, partitions=1, limits={"max_queue_depth": 0})
    database.put(QUEUE, whole_value("writer", 0, _VALUE_BYTES), key=_key(0))
    [unit] = database._runtime.broker.queue(QUEUE).units.values()
    database._runtime.run(database._runtime.broker.shard.change(unit.data, LogSettings(segment_bytes=_SEGMENT_BYTES)))
    for first in range(1, ROWS, _COMMIT_ROWS):
        numbers = range(first, min(first + _COMMIT_ROWS, ROWS))
        values = [whole_value("writer", number, _VALUE_BYTES) for number in numbers]
        columns = {"value": pa.array(values, pa.binary()), "key": pa.array([*map(_key, numbers)], pa.binary())}
        database.put_many(QUEUE, pa.table(columns))
    until_end(database.directory, QUEUE, ROWS)


def filled_directory(path: Path) -> None:
    """The same, closed."""
    with penstock.open(path) as database:
        fill(database)


def until_compacted(path: Path) -> None:
    """As readers of the directory see it."""
    table, deadline = QueueTable.open(path, QUEUE), time.monotonic() + _DEADLINE_S
    while table.partitions()[0].rows > ROWS // 2:
        assert time.monotonic() < deadline, "it was not compacted"
        time.sleep(0.02)
    table.close()


def check_compacted(rows: Iterable[tuple[int, bytes, bytes]]) -> int:
    """Offsets, keys and values: each row as it was written and at most once, and the last of every key. How many."""
    given = list(rows)
    found = {offset: (key, who_and_which(value)) for offset, key, value in given}
    assert len(found) == len(given)
    assert all((key, said) == (_key(offset), ("writer", offset)) for offset, (key, said) in found.items())
    assert set({_key(number): number for number in range(ROWS)}.values()) <= found.keys()
    return len(found)


def _key(number: int) -> bytes:
    """Of most keys only the last values stay, of one in a hundred the only one, wherever it lies."""
    return b"only-%d" % number if number % 100 == 0 else b"key-%d" % (number % _KEYS)
