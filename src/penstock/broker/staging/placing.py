"""Where staged rows go: decided when they are committed, by the partitions that the queue has then."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.broker.queue import Queue
from penstock.broker.staging.records import StagedPlace, StagePlace, StageRecord
from penstock.core.ports import Buffer
from penstock.kernels import hashing
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.partition import Log
from penstock.log.shard import Part
from penstock.queues.settings import Unkeyed


class Stage(NamedTuple):
    """A stage that is about to be committed, and the queue it goes to."""

    place: StagePlace
    record: StageRecord
    queue: Queue
    side_log: Log

    @property
    def unkeyed(self) -> int:
        """The partition of rows without a key: a writer keeps one, unless the queue wants them spread."""
        writer = self.record.writer.encode()
        number = hashing.murmur3(writer, 0, len(writer))
        if not writer or self.queue.settings.unkeyed is Unkeyed.SPREAD:
            number += self.place.first
        return number % self.queue.settings.partitions


class Placement(NamedTuple):
    """Some rows of a commit, all for one partition."""

    queue: Queue
    partition: int
    columns: Columns


def placements(stage: Stage, batch: Buffer) -> Iterator[Placement]:
    """The rows of a stage, by partition. Any thread, while the queue's gate is passed."""
    stored = Batch.parse(batch)
    columns = stored.columns(array("i", range(len(stored))))
    if stage.record.partition is not None:
        yield Placement(stage.queue, stage.record.partition, columns)
        return
    for partition, mine in columns.scatter(stage.queue.settings.partitions, stage.unkeyed):
        yield Placement(stage.queue, partition, mine)


def parts_of(placed: Sequence[Placement]) -> list[Part]:
    """For one frame. The partitions are there."""
    return [(queue.units[partition].data, columns) for queue, partition, columns in placed]


def places_of(placed: Sequence[tuple[Queue, int, int]]) -> tuple[StagedPlace, ...]:
    """Of queue, partition and number of rows: where they will be if they are staged now, one behind the other."""
    rows: dict[tuple[Queue, int], int] = {}
    for queue, partition, count in placed:
        rows[queue, partition] = rows.get((queue, partition), 0) + count
    return tuple(
        StagedPlace(queue.namespace, queue.name, partition, queue.units[partition].data.end, count)
        for (queue, partition), count in rows.items()
    )
