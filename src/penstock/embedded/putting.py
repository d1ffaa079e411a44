"""Single messages on their way into a queue."""

from __future__ import annotations

import asyncio
from copy import copy

from penstock.broker.publish import request as publish
from penstock.broker.publish.placement import Steps, take_back, unkeyed
from penstock.broker.publish.publisher import Publisher
from penstock.broker.queue import Queue
from penstock.core.errors import Closed, JournalFailed, OutcomeUnknown, PenstockError
from penstock.embedded.bridge import CLOSED, Caller, WaitingThread
from penstock.embedded.gathering import Gatherer
from penstock.embedded.outgoing import Parts, columns_of
from penstock.embedded.runtime import Runtime
from penstock.log.columns import Columns

# After these it is not worth, or not safe, to try the messages one by one.
_FINAL = (OutcomeUnknown, JournalFailed, Closed)


class Put:
    """One call of put(); its answer is the id of the message."""

    __slots__ = ("_steps", "caller", "partition", "parts", "publisher")

    def __init__(self, parts: Parts, publisher: Publisher, partition: int | None, caller: Caller[str]) -> None:
        self.parts, self.publisher, self.partition, self.caller = parts, publisher, partition, caller
        self._steps: Steps = []

    @property
    def bytes(self) -> int:
        parts = self.parts
        return len(parts.value) + len(parts.key or b"") + len(parts.properties or b"") + 64

    def fail(self, error: BaseException) -> None:
        take_back(self._steps)
        self.caller.failed(error)

    def place(self, queue: Queue) -> int | None:
        """The partition it goes to; None where its key decides."""
        if self.partition is not None or self.parts.key:
            return self.partition
        return unkeyed(queue, self.publisher, self._steps)


class Inlet:
    """Of one queue."""

    def __init__(self, runtime: Runtime, queue: str) -> None:
        self._runtime, self._queue = runtime, queue
        self._gatherer = Gatherer[Put](runtime, self._together)

    def put(self, put: Put) -> None:
        """For any thread."""
        self._gatherer.add(put)

    def put_and_wait(self, parts: Parts, partition: int | None) -> str:
        """For a thread, which waits; the id of the message."""
        runtime = self._runtime
        runtime.check_caller()
        publisher, message_id = runtime.publisher, ""

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

        return message_id if self._gatherer.visit(stage) else self._put_by_loop(parts, publisher, partition)

    def _put_by_loop(self, parts: Parts, publisher: Publisher, partition: int | None) -> str:
        caller: WaitingThread[str] = WaitingThread()
        self._gatherer.add(Put(parts, publisher, partition, caller))
        return caller.wait()

    async def _together(self, puts: list[Put]) -> None:
        try:
            queue = await self._made(puts)
        except BaseException as error:
            _fail(puts, error)
            if not isinstance(error, Exception):
                raise
            return
        groups: dict[int | None, list[Put]] = {}
        for put in puts:
            # One that comes alone is placed on the way, and takes no step if it is refused.
            groups.setdefault(put.place(queue) if len(puts) > 1 else put.partition, []).append(put)
        if groups:
            await self._store(queue, groups)

    async def _made(self, puts: list[Put]) -> Queue:
        """The queue, made for the first of them that it takes; those before it are told why not, and removed."""
        queue, publishing = self._runtime.wanted(self._queue), self._runtime.broker.publishing
        while queue.is_unmade and puts:
            try:
                queue = await publishing.routes.made(queue, [columns_of((puts[0].parts,))], puts[0].partition)
            except PenstockError as error:
                _fail([puts.pop(0)], error)
        return queue

    async def _store(self, queue: Queue, groups: dict[int | None, list[Put]]) -> None:
        """In one commit, partition by partition."""
        puts = [put for group in groups.values() for put in group]
        try:
            ids = await self._commit(queue, groups)
        except _FINAL as error:
            _fail(puts, error)
        except PenstockError as error:
            # One of them is refused: those that are not to blame are stored all the same.
            if len(puts) == 1:
                _fail(puts, error)
            else:
                for partition, group in groups.items():
                    for put in group:
                        await self._store(queue, {partition: [put]})
        except BaseException as error:
            _fail(puts, error)
            raise
        else:
            for put, message_id in zip(puts, ids, strict=True):
                put.caller.done(message_id)

    async def _commit(self, queue: Queue, groups: dict[int | None, list[Put]]) -> list[str]:
        gathered = [(partition, columns_of([put.parts for put in puts])) for partition, puts in groups.items()]
        wanted = [
            publish.Put(queue, columns, groups[partition][0].publisher, partition) for partition, columns in gathered
        ]
        found = await self._runtime.broker.publishing.intake.stage(publish.PublishRequest(wanted))
        return [
            message_id
            for (_, columns), (_, placed, _) in zip(gathered, found, strict=True)
            for message_id in _ids(queue, columns, {number: offset for number, offset, _ in placed})
        ]


def _fail(puts: list[Put], error: BaseException) -> None:
    """Each gets an error of its own: threads add to it where they raise it."""
    told = Closed(CLOSED) if isinstance(error, asyncio.CancelledError) else error
    for put in puts:
        put.fail(copy(told))


def _ids(queue: Queue, columns: Columns, following: dict[int, int]) -> list[str]:
    """Of each row, from the first offset in each partition."""
    if len(following) == 1:
        [(partition, first)] = following.items()
        prefix = queue.message_id_prefix(partition)
        return [f"{prefix}{first + row}" for row in range(columns.count)]
    found = []
    for partition in columns.partitions(queue.settings.partitions):
        found.append(f"{queue.message_id_prefix(partition)}{following[partition]}")
        following[partition] += 1
    return found
