"""Queues of numbered messages, so that whoever reads them can count."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

from penstock.embedded.database import Database
from penstock.tables.table import TableDirectory

_DEADLINE_S = 30.0


def put_numbers(database: Database, queue: str, numbers: Iterable[int], partition: int | None = None) -> None:
    """A message each, with the number as its value and one of a hundred keys, in one commit; readers of the directory
    see it when this returns."""
    put_numbers_soon(database, queue, numbers, partition)
    until_seen(database, queue)


def put_numbers_soon(database: Database, queue: str, numbers: Iterable[int], partition: int | None = None) -> None:
    written = [str(number) for number in numbers]
    keys = [f"key-{int(number) % 100}" for number in written]
    table = pa.table({"value": pa.array(written).cast(pa.binary()), "key": pa.array(keys).cast(pa.binary())})
    database.put_many(queue, table, partition=partition)


def purge(database: Database, queue: str) -> None:
    """Readers of the directory see that when this returns."""
    database.purge(queue)
    until_seen(database, queue)


def until_seen(database: Database, queue: str) -> None:
    """Wait until readers of the directory see what the broker has: they follow it by a fraction of a second."""
    wanted = {(part.partition, part.start, part.end) for part in database.describe(queue).partitions}
    _until(database.directory, lambda directory: wanted <= _seen(directory, queue))


def until_declared(database: Database, queue: str) -> None:
    partitions = database.describe(queue).settings["partitions"]
    _until(database.directory, lambda directory: len(_seen(directory, queue)) == partitions)


def until_end(path: Path, queue: str, end: int) -> None:
    """Until the partitions of a queue end at this sum."""
    _until(path, lambda directory: sum(part[2] for part in _seen(directory, queue) or {(0, 0, -1)}) == end)


def _until(path: Path, is_seen: Callable[[TableDirectory], bool]) -> None:
    directory, deadline = TableDirectory(path), time.monotonic() + _DEADLINE_S
    while not is_seen(directory):
        assert time.monotonic() < deadline, "readers of the directory do not see what the broker has"
        time.sleep(0.005)
    directory.close()


def _seen(directory: TableDirectory, queue: str) -> set[tuple[int, int, int]]:
    if queue not in directory.queues():
        return set()
    return {(part.number, part.start, part.end) for part in directory.table(queue).partitions()}


def numbers_of(batches: Iterable[pa.RecordBatch]) -> list[int]:
    """Of the column value, in the order of the rows."""
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]
