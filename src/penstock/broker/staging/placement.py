"""Where staged rows go: decided when they are committed, by the partitions that the queue has then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.broker.queues.queue import Queue
from penstock.broker.staging.records import EpochKey, StagedPlace, StagePlace, StageRecord
from penstock.core.ports import Buffer
from penstock.kernels import hashing
from penstock.log.batch import Batch
from penstock.log.encoded import Encoded, Rows
from penstock.log.partition import Log
from penstock.log.shard import RowsPart
from penstock.queues.settings import Unkeyed

# Upper bounds: header and padding of a batch, what the book says of a stage, of an epoch, its pipeline and whose they
# are, and of a partition beside the names of its queue.
_BATCH_BYTES, _STAGE_BYTES, _EPOCH_BYTES, _PLACE_BYTES = 256, 80, 4096, 100


class Stage(NamedTuple):
    """A stage that is about to be committed, and the queue it goes to."""

    place: StagePlace
    record: StageRecord
    queue: Queue
    side_log: Log

    @property
    def unkeyed(self) -> int:
        return _unkeyed(self.queue, self.record.writer, self.place.first)

    @property
    def partition(self) -> int | None:
        return self.record.partition

    @property
    def rows(self) -> int:
        return self.record.rows

    @property
    def size_bytes(self) -> int:
        return self.record.size_bytes


class Carried(NamedTuple):
    """Rows that come with their commit and were never staged, and the queue they go to. `number`: of the commit."""

    queue: Queue
    encoded: Encoded
    writer: str
    number: int
    partition: None = None

    @property
    def unkeyed(self) -> int:
        return _unkeyed(self.queue, self.writer, self.number)

    @property
    def rows(self) -> int:
        return self.encoded.count

    @property
    def size_bytes(self) -> int:
        return self.encoded.bytes + _BATCH_BYTES


def _unkeyed(queue: Queue, writer: str, number: int) -> int:
    """The partition of rows without a key: a writer keeps one, unless the queue wants them spread."""
    name = writer.encode()
    hashed = hashing.murmur3(name, 0, len(name))
    if not writer or queue.settings.unkeyed is Unkeyed.SPREAD:
        hashed += number
    return hashed % queue.settings.partitions


class Target(NamedTuple):
    queue: Queue
    partition: int


class Placement(NamedTuple):
    """Some rows of a commit, all for one partition."""

    queue: Queue
    partition: int
    rows: Rows


def placements(stage: Stage, batch: Buffer) -> list[Placement]:
    """The rows of a stage, by partition. Any thread, while the queue's gate is passed."""
    data = bytearray(batch)
    return _by_partition(stage, Encoded(data, Batch.parse(data)))


def carried_placements(carried: Sequence[Carried]) -> list[Placement]:
    """The same of rows that came with the commit."""
    return [placement for each in carried for placement in _by_partition(each, each.encoded)]


def _by_partition(source: Stage | Carried, rows: Encoded) -> list[Placement]:
    if source.partition is not None:
        return [Placement(source.queue, source.partition, rows)]
    scattered = rows.scatter(source.queue.settings.partitions, source.unkeyed)
    return [Placement(source.queue, partition, mine) for partition, mine in scattered]


def parts_of(placed: Sequence[Placement]) -> list[RowsPart]:
    """For one frame. The partitions are there."""
    return [(queue.units[partition].data, rows) for queue, partition, rows in placed]


def places_of(placed: Sequence[tuple[Queue, int, int]]) -> tuple[StagedPlace, ...]:
    """Of queue, partition and number of rows: where they will be if they are staged now, one behind the other."""
    rows: dict[tuple[Queue, int], int] = {}
    for queue, partition, count in placed:
        rows[queue, partition] = rows.get((queue, partition), 0) + count
    return tuple(
        StagedPlace(queue.namespace, queue.name, partition, queue.units[partition].data.end, count)
        for (queue, partition), count in rows.items()
    )


def targets_of(stages: Sequence[Stage | Carried]) -> list[Target]:
    """All partitions that rows may go to."""
    found: dict[Target, None] = {}
    for stage in stages:
        named = stage.partition
        numbers = range(stage.queue.settings.partitions) if named is None else [named]
        found |= dict.fromkeys([Target(stage.queue, number) for number in numbers])
    return list(found)


def frame_bytes(key: EpochKey, stages: Sequence[Stage], placed: Sequence[Placement]) -> int:
    """What one frame with all the rows and what the book says of them takes, at most."""
    rows = sum([mine.bytes + _BATCH_BYTES for _, _, mine in placed])
    targets = {Target(queue, partition) for queue, partition, _ in placed}
    # Characters of names may be escaped.
    places = sum([_PLACE_BYTES + 2 * len(t.queue.name.encode() + t.queue.namespace.encode()) for t in targets])
    return rows + places + len(stages) * _STAGE_BYTES + _EPOCH_BYTES + len(key.query.encode())
