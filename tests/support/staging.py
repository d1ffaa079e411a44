"""Short words for staging rows and committing epochs, and for what is in a queue."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.broker import Stage

from penstock.broker.browsing import browse
from penstock.broker.queues.queue import Queue
from penstock.broker.staging.records import StagedRange
from penstock.log.columns import Columns

QUERY = "query"


async def staged(
    s: Stage,
    queue: Queue,
    *rows: bytes,
    keys: Sequence[bytes] | None = None,
    writer: str = "",
    partition: int | None = None,
) -> StagedRange:
    return await s.broker.staging.stage(queue, Columns.of(rows, keys=keys), writer=writer, partition=partition)


async def stored(s: Stage, queue: str = "q") -> list[bytes]:
    """The values of all messages, sorted."""
    return sorted([message.row.value async for message in browse(s.broker, s.broker.queue(queue))])


def side_logs(s: Stage) -> list[str]:
    names = [log.name for log in s.broker.shard.logs if log.name.startswith("%40staging/")]
    return [name for name in names if name.rpartition("/")[2].isdecimal()]
