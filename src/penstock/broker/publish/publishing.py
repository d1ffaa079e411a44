"""Taking messages in: whom a topic feeds, who refuses, one frame for all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from penstock.broker.publish.commit import Intake
from penstock.broker.publish.joint import JointPuts
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import PlacedBatch, ProducerCall, Published, PublishRequest, Put, PutFields
from penstock.broker.publish.routes import Routes
from penstock.broker.queues.queue import Placed, Queue
from penstock.core.errors import InvalidArgument, QueueFull
from penstock.log.columns import Columns
from penstock.log.shard import resolve

Staged = tuple[list[Placed], "asyncio.Future[None]"]
"""where the rows go, and their commit"""


class Publishing:
    """Used from the loop. A call that waits returns when all is committed in every queue it goes to. The others stage
    it in this turn of the loop: None if it would have to wait. PenstockError if one of the queues refuses: then none
    takes it."""

    def __init__(self, intake: Intake, routes: Routes) -> None:
        self.intake, self.routes, self.joint = intake, routes, JointPuts(intake)
        self._loop = asyncio.get_running_loop()
        self.bury: Callable[[Queue, Columns], Awaitable[None]]
        """To be called by a door that tells a publisher that a queue is full, which the calls that wait do themselves:
        queues whose overflow is reject-dead-letter keep what they refuse as dead letters."""

    # Into one queue, whatever its bindings

    async def put(
        self,
        queue: Queue,
        columns: Columns,
        publisher: Publisher,
        partition: int | None = None,
        producer: ProducerCall | None = None,
    ) -> Published:
        put = Put(queue, columns, publisher, partition)
        try:
            [published] = await self.intake.stage(PublishRequest((put,), (), producer))
        except QueueFull:
            await self.bury(queue, columns)
            raise
        return published

    def put_now(
        self, queue: Queue, columns: Columns, publisher: Publisher, partition: int | None = None
    ) -> Staged | None:
        return self._puts_now(((queue, columns, publisher, partition, None, None),))

    async def put_batches(
        self, queue: Queue, batches: Sequence[PlacedBatch], partitions: int, publisher: Publisher
    ) -> list[Placed]:
        """Batches that another process encoded and placed, where the queue had so many partitions: keys that were
        placed by another number than there is now are placed anew."""
        found = await self.intake.stage(PublishRequest(_puts(queue, batches, partitions, publisher)))
        return [placed for published in found for placed in published.placed]

    def put_batches_now(
        self, queue: Queue, batches: Sequence[PlacedBatch], partitions: int, publisher: Publisher
    ) -> Staged | None:
        return self._puts_now(_puts(queue, batches, partitions, publisher))

    def _puts_now(self, puts: Sequence[PutFields]) -> Staged | None:
        committed = self._loop.create_future()
        frame = self.intake.try_stage(puts, partial(resolve, committed))
        return None if frame is None else (frame.placed(), committed)

    # By topic

    async def publish(self, columns: Columns, publisher: Publisher, namespace: str = "default") -> list[Published]:
        """By the topics of the rows. NoSuchQueue for a `$queue/…` topic of no queue where none may be made; ordinary
        topics that feed no queue are passed over."""
        spans = columns.topics
        if spans is None or columns.topic_index is None:
            raise InvalidArgument("a publish by topic needs a topic for each message")
        topics = [bytes(columns.source[start:end]) for start, end in zip(spans.starts, spans.ends, strict=True)]
        while (targets := self.routes.targets(topics, namespace)) is None:
            await self.routes.make(topics, columns, namespace)
        if not targets.are_entered:
            columns, topics, found = self.routes.enter(columns, topics, namespace)
            targets = self.routes.targets(topics, namespace, found) or targets
        puts = [Put(queue, columns.of_topics(numbers), publisher) for queue, numbers in targets.by_queue().items()]
        try:
            return await self.intake.stage(PublishRequest(puts)) if puts else []
        except QueueFull as error:
            for put in puts:
                if put.queue.name == error.queue and isinstance(put.rows, Columns):
                    await self.bury(put.queue, put.rows)
            raise


def _puts(queue: Queue, batches: Sequence[PlacedBatch], partitions: int, publisher: Publisher) -> list[Put]:
    return [
        Put(queue, rows, publisher, partition, partitions if is_by_key else None)
        for rows, partition, is_by_key in batches
    ]
