"""Which rows of a batch go to which partition, and the bytes of each: worked out in the listener, so that the server
stores what it is given."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import TooLarge
from penstock.kernels import hashing, rows
from penstock.log.reading.arrow_encoding import ArrowColumns, Pieces, encoded, places_of

_INT32 = pa.int32()


class Group(NamedTuple):
    """An encoded batch. `partition` None: the server decides, for rows without a key or rows that are staged."""

    pieces: Pieces
    rows: int
    partition: int | None = None
    is_by_key: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.pieces))


@dataclass(frozen=True, slots=True)
class Partitions:
    """Of the queue, when the stream began. `unkeyed`: where rows without a key go; None if the server decides that."""

    count: int
    unkeyed: int | None


def cut(columns: ArrowColumns, limit_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows that are not larger than that. TooLarge for a row that is."""
    waiting = [(0, len(columns))]
    while waiting:
        first, stop = waiting.pop()
        if (size := columns.part(first, stop).bytes) <= limit_bytes:
            yield first, stop
        elif stop - first == 1:
            raise TooLarge("a message", size, limit_bytes)
        else:
            middle = (first + stop) // 2
            waiting += [(middle, stop), (first, middle)]


def staged_groups(columns: ArrowColumns, wanted: pa.Array | None, partitions: Partitions) -> list[Group]:
    """By the partitions that rows ask for. Where the others go is decided when they are committed."""
    if wanted is None:
        return [Group(encoded(columns), len(columns))]
    undecided = pa.scalar(partitions.count, _INT32)
    return _scattered(columns, pc.coalesce(_named(wanted, partitions), undecided), partitions)


def appended_groups(columns: ArrowColumns, wanted: pa.Array | None, partitions: Partitions) -> list[Group]:
    """By the partitions that rows ask for, and for the others by their keys."""
    if wanted is None and (columns.key is None or partitions.count == 1):
        found = 0 if partitions.count == 1 else partitions.unkeyed
        return [Group(encoded(columns), len(columns), found, is_by_key=found is not None)]
    numbers = _by_key(columns, partitions)
    if wanted is not None:
        numbers = pc.coalesce(_named(wanted, partitions), numbers)
    return _scattered(columns, numbers, partitions)


def _named(wanted: pa.Array, partitions: Partitions) -> pa.Array:
    return pc.add(wanted, pa.scalar(partitions.count + 1, _INT32))


def _by_key(columns: ArrowColumns, partitions: Partitions) -> pa.Array:
    unkeyed = partitions.count if partitions.unkeyed is None else partitions.unkeyed
    if columns.key is None:
        return pa.repeat(pa.scalar(unkeyed, _INT32), len(columns))
    places, data = places_of(columns.key), columns.key.buffers()[2]
    numbers = array("i", bytes(4 * len(columns)))
    starts, ends = places[:-1], places[1:]
    hashing.partitions(memoryview(data).cast("B"), starts, ends, partitions.count, numbers)
    rows.set_where_empty(starts, ends, unkeyed, numbers)
    return pa.Array.from_buffers(_INT32, len(columns), [None, pa.py_buffer(numbers)])


def _scattered(columns: ArrowColumns, numbers: pa.Array, partitions: Partitions) -> list[Group]:
    """Below the number of partitions they were found by key; that number is for the server to decide; what is above was
    asked for."""
    count = partitions.count
    sizes, order = array("i", bytes(4 * (2 * count + 1))), array("i", bytes(4 * len(columns)))
    hashing.scatter(memoryview(numbers.buffers()[1]).cast("B").cast("i")[: len(columns)], sizes, order)
    gathered = columns.take(pa.Array.from_buffers(_INT32, len(columns), [None, pa.py_buffer(order)]))
    groups: list[Group] = []
    first = 0
    for number, size in enumerate(sizes):
        if size:
            pieces = encoded(gathered.part(first, first + size))
            partition = number if number < count else None if number == count else number - count - 1
            groups.append(Group(pieces, size, partition, number < count))
            first += size
    return groups
