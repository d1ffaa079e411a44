"""Requests and their replies: a queue of this process takes the replies, and correlation ids tell whose they are."""

from __future__ import annotations

import asyncio
import logging
import uuid

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.feed import Feed
from penstock.broker.feed.held import Held
from penstock.broker.publish.publisher import Publisher
from penstock.broker.queues.queue import Queue
from penstock.core.errors import Closed
from penstock.core.queue_paths import queue_topic
from penstock.embedded.message import StoredMessage
from penstock.embedded.outgoing import Headers, Value, one_message
from penstock.embedded.runtime import Runtime

logger = logging.getLogger("penstock.embedded.replies")

_PREFIX = "penstock-replies/"
_GROUP = "replies"
_BATCH = 500
# Whoever asked is gone with the process: nothing of it needs to outlive that, and nothing is worth a sync.
_SETTINGS: dict[str, object] = {
    "partitions": 1,
    "durability": "memory",
    "limits": {"message_ttl": "1h"},
    "retention": {"time": "1h"},
    "dlq_config": {"enabled": False},
}


class Replies:
    """Coroutines run on the broker's loop. The queue is made for the first request and deleted by close(); one that a
    killed process left behind goes when the next one asks for a reply."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: dict[bytes, asyncio.Future[StoredMessage]] = {}
        self._opening = asyncio.Lock()
        self._queue: Queue | None = None
        self._feed: Feed | None = None

    async def request(
        self,
        queue: str,
        value: Value,
        key: Value | None,
        headers: Headers | None,
        timeout_s: float,
        publisher: Publisher,
    ) -> StoredMessage:
        """TimeoutError if no reply came; the request may still be answered, to nobody."""
        replies = await self._open()
        correlation = uuid.uuid4().hex.encode()
        columns = one_message(
            value,
            key,
            headers,
            expires_in=timeout_s,
            reply_to=queue_topic(replies.name),
            correlation_id=correlation,
        )
        future: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = future
        try:
            async with asyncio.timeout(timeout_s):
                publishing = self._runtime.broker.publishing
                target = await publishing.routes.made(self._runtime.wanted(queue), [columns])
                await publishing.put(target, columns, publisher)
                return await future
        except TimeoutError as error:
            raise TimeoutError(f"queue {queue!r} gave no reply within {timeout_s} s") from error
        finally:
            del self._waiting[correlation]

    async def close(self) -> None:
        if self._feed is None or self._queue is None:
            return
        queue, self._queue = self._queue, None
        self._feed.close()
        await self._runtime.broker.declaring.delete(queue)

    async def _open(self) -> Queue:
        async with self._opening:
            if self._queue is None:
                await self._delete_leftovers()
                self._queue = await self._declare()
                group = await self._runtime.broker.group(self._queue, _GROUP, is_derived=True)
                self._feed = self._runtime.broker.feed(self._runtime.broker.join(group), self)
        return self._queue

    async def _declare(self) -> Queue:
        declaring = self._runtime.broker.declaring
        settings = {**_SETTINGS, "namespace": self._runtime.namespace}
        return await declaring.declare(declaring.settings_for(f"{_PREFIX}{uuid.uuid4().hex}", settings), is_auto=True)

    async def _delete_leftovers(self) -> None:
        """Only one process has the directory: what others left here is nobody's."""
        declaring = self._runtime.broker.declaring
        for queue in list(declaring.queues.values()):
            if queue.name.startswith(_PREFIX) and queue.record.is_auto and queue.namespace == self._runtime.namespace:
                await declaring.delete(queue)

    # As an outlet

    def room(self) -> int:
        return _BATCH

    def send(self, deliveries: list[Delivery]) -> int:
        for delivery in deliveries:
            for row in delivery.rows:
                self._answer(StoredMessage(delivery.group.queue, delivery.unit.partition, delivery.stored, row))
        self._runtime.broker.settling.several([Held(delivery) for delivery in deliveries])
        return len(deliveries)

    def dismissed(self) -> None:
        self.broke(Closed("the queue of replies was deleted"))

    def broke(self, error: BaseException) -> None:
        """There will be no replies any more; the next request begins anew."""
        self._queue = None
        if self._feed is not None:
            self._feed.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)

    def _answer(self, reply: StoredMessage) -> None:
        future = self._waiting.get(reply.correlation_id or b"")
        if future is None or future.done():
            logger.debug("a reply that nobody waits for message=%s", reply.id)
        else:
            future.set_result(reply)
