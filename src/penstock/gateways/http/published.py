"""Where published messages are, as their publisher is told."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.queue import Placed, Queue
from penstock.codecs.http.messages import PublishedMessage
from penstock.log.columns import Columns


def results_of(queue: Queue, columns: Columns, placed: Sequence[Placed], unkeyed: int) -> list[PublishedMessage]:
    """In the order of the rows."""
    if len(placed) == 1:
        partition, base, count = placed[0]
        prefix = queue.message_id_prefix(partition)
        return [PublishedMessage(f"{prefix}{offset}", partition, offset) for offset in range(base, base + count)]
    following = {run.partition: run.base_offset for run in placed}
    results = []
    for number in columns.partitions(queue.settings.partitions, unkeyed):
        offset = following[number]
        following[number] = offset + 1
        results.append(message_of(queue, number, offset))
    return results


def message_of(queue: Queue, partition: int, offset: int, is_duplicate: bool = False) -> PublishedMessage:
    return PublishedMessage(f"{queue.message_id_prefix(partition)}{offset}", partition, offset, is_duplicate)
