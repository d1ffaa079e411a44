"""What a server says of queues and of rows that were written. All of it can be pickled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """Offsets start..end can be read now; not each of them need name a row. `rows`: of the whole partition. `log`: a
    number that no other partition ever had, None while nothing was put into this one; a queue that was deleted and
    created again has other ones."""

    number: int
    start: int
    end: int
    rows: int
    log: int | None
    size_bytes: int = 0
    """of all its rows as they are stored"""
    extents: tuple[tuple[int, int, int], ...] | None = None
    """where its rows lie among start..end: offsets from, to, rows; between these lies none. None if the server does not
    tell"""


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """Offsets start..stop of a partition, not including `stop`; of that log, if one is named."""

    partition: int
    start: int
    stop: int
    log: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows that are messages of a partition, with the offsets from `base_offset` on."""

    partition: int
    base_offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class StagedRange:
    """Rows that are stored and no messages yet: names them for commit() and abandon(), from any process."""

    log: int
    first: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CommittedPlace:
    """Rows of a commit that became messages of one partition, with the offsets from `base_offset` on."""

    namespace: str
    queue: str
    partition: int
    base_offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Where the rows of an epoch are. `is_repeated`: it was committed before, and nothing was done now."""

    placed: tuple[CommittedPlace, ...]
    is_repeated: bool
