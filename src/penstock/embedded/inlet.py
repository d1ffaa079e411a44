"""Single messages on their way into a queue."""

from __future__ import annotations

import asyncio

from penstock.broker.publish.joint import Row
from penstock.broker.publish.publisher import Publisher
from penstock.broker.queues.queue import Placed, Queue
from penstock.core.errors import Closed, PenstockError
from penstock.embedded.bridge import CLOSED, Caller, Ignored, WaitingThread
from penstock.embedded.outgoing import Parts, columns_of
from penstock.embedded.runtime import Runtime


class Put:
    """One call of put(); its answer is the id of the message."""

    __slots__ = ("_inlet", "_queue", "caller", "partition", "parts", "publisher")
    _queue: Queue

    def __init__(
        self, inlet: Inlet, parts: Parts, publisher: Publisher, partition: int | None, caller: Caller[str]
    ) -> None:
        self._inlet, self.parts, self.publisher, self.partition = inlet, parts, publisher, partition
        self.caller = caller

    def begin(self) -> None:
        self._inlet.begin(self)

    def refuse(self, reason: Closed) -> None:
        self.caller.failed(reason)

    def store(self, queue: Queue, runtime: Runtime) -> None:
        self._queue = queue
        value, key, properties, expiry = self.parts
        row = Row(value, key or None, properties, expiry)
        runtime.broker.publishing.joint.put(queue, row, self.publisher, self.partition, self._told)

    def _told(self, placed: Placed | None, error: BaseException | None) -> None:
        if placed is None:
            self.caller.failed(error or Closed(CLOSED))
        else:
            self.caller.done(f"{self._queue.message_id_prefix(placed.partition)}{placed.base_offset}")


class Inlet:
    """Of one queue."""

    def __init__(self, runtime: Runtime, queue: str) -> None:
        self._runtime, self._queue = runtime, queue
        self._is_visited = False
        self._making: list[Put] = []
        """wait until the queue is made"""

    def put(self, parts: Parts, publisher: Publisher, partition: int | None, caller: Caller[str]) -> None:
        """For any thread."""
        self._runtime.hand(Put(self, parts, publisher, partition, caller))

    def put_and_wait(self, parts: Parts, partition: int | None) -> str:
        """For a thread, which waits; the id of the message."""
        self._runtime.check_caller()
        publisher = self._runtime.publisher
        message_id = self._put_here(parts, publisher, partition)
        if message_id is not None:
            return message_id
        caller: WaitingThread[str] = WaitingThread()
        self.put(parts, publisher, partition, caller)
        return caller.wait()

    def _put_here(self, parts: Parts, publisher: Publisher, partition: int | None) -> str | None:
        """Of one who comes alone. None, and nothing was done, if others are at it: with them it costs less."""
        runtime, message_id = self._runtime, ""
        if self._is_visited or runtime.broker.publishing.joint.is_busy:
            return None

        def stage() -> asyncio.Future[None] | None:
            nonlocal message_id
            queue = runtime.known(self._queue)
            if queue is None:
                return None
            staged = runtime.broker.publishing.put_now(queue, columns_of((parts,)), publisher, partition)
            if staged is None:
                return None
            [(number, offset, _)], committed = staged
            message_id = f"{queue.message_id_prefix(number)}{offset}"
            return committed

        self._is_visited = True
        try:
            return message_id if runtime.visit(stage) else None
        finally:
            self._is_visited = False

    def begin(self, put: Put) -> None:
        """On the loop."""
        queue = None if self._making else self._runtime.known(self._queue)
        if queue is not None:
            put.store(queue, self._runtime)
            return
        self._making.append(put)
        if len(self._making) == 1:
            self._runtime.post(self._make(), Ignored())

    async def _make(self) -> None:
        """The queue, for the first of them that it takes; those before it are told why not."""
        puts, publishing = self._making, self._runtime.broker.publishing
        while puts:
            try:
                queue = await publishing.routes.made(
                    self._runtime.wanted(self._queue), [columns_of((puts[0].parts,))], puts[0].partition
                )
            except PenstockError as error:
                puts.pop(0).caller.failed(error)
            except BaseException as error:
                self._making = []
                for put in puts:
                    put.caller.failed(Closed(CLOSED) if isinstance(error, asyncio.CancelledError) else error)
                raise
            else:
                while puts:
                    puts.pop(0).store(queue, self._runtime)
