"""`penstock.open_async()`: the broker for tasks of any event loop. It has its own thread and never runs on theirs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Unpack

from penstock.broker.broker import BrokerOptions
from penstock.broker.letters.redrive import Report
from penstock.broker.queues.queue import Placed
from penstock.core.closing import AsyncClosing
from penstock.core.descriptions import GroupDescription, QueueDescription
from penstock.embedded.browsing import PAGE, Browsing
from penstock.embedded.consumer import AsyncConsumer
from penstock.embedded.crew import Crew, Registration
from penstock.embedded.message import StoredMessage
from penstock.embedded.operations import Operations, redrive_options
from penstock.embedded.outgoing import (
    Carried,
    Headers,
    Seconds,
    Sendable,
    Value,
    many_messages,
    one_message,
    parts_of,
    seconds,
)
from penstock.embedded.replies import Replies
from penstock.embedded.runtime import Runtime, named_settings
from penstock.embedded.subscription import Subscription
from penstock.embedded.transaction import AsyncTransaction
from penstock.embedded.worker import Job
from penstock.queues.names import DEFAULT_NAMESPACE


def open_async(
    directory: Path | str,
    *,
    durability: str | None = None,
    auto_create: bool = True,
    namespace: str = DEFAULT_NAMESPACE,
    options: BrokerOptions | None = None,
) -> Opening:
    """As penstock.open(): `async with penstock.open_async(…) as db`, or `db = await penstock.open_async(…)`."""
    return Opening(Runtime(directory, durability, namespace, options or BrokerOptions(auto_create=auto_create)))


class Opening:
    """Awaited or entered once."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def __await__(self) -> Generator[object, None, AsyncDatabase]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncDatabase:
        self._database = await self._open()
        return self._database

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._database.close()

    async def _open(self) -> AsyncDatabase:
        runtime = self._runtime
        runtime.start()
        try:
            await runtime.wait(runtime.open())
        except BaseException:
            await asyncio.to_thread(runtime.abandon)
            raise
        return AsyncDatabase(runtime)


class AsyncDatabase(AsyncClosing):
    """As Database, which says what each call does; all calls but worker() and stop() are awaited, by tasks of
    any loop. Cancelling a call does not undo it: it may be done or not."""

    def __init__(self, runtime: Runtime) -> None:
        """Use penstock.open_async()."""
        self._runtime, self._operations = runtime, Operations(runtime)
        self._replies, self._crew = Replies(runtime), Crew(runtime)
        runtime.before_closing.append(self._replies.close)

    @property
    def directory(self) -> Path:
        return self._runtime.directory

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._crew.stop()
        self._runtime.close()

    # Queues

    async def declare(self, queue: str | Mapping[str, object], /, **settings: object) -> None:
        name, explicit = named_settings(queue, settings)
        await self._runtime.wait(self._operations.declare(name, explicit))

    async def change(self, queue: str, **settings: object) -> None:
        await self._runtime.wait(self._operations.change(queue, settings))

    async def pause(self, queue: str, group: str | None = None) -> None:
        await self._runtime.wait(self._operations.pause(queue, group, True))

    async def resume(self, queue: str, group: str | None = None) -> None:
        await self._runtime.wait(self._operations.pause(queue, group, False))

    async def purge(self, queue: str) -> int:
        return await self._runtime.wait(self._operations.purge(queue))

    async def delete(self, queue: str, group: str | None = None) -> None:
        await self._runtime.wait(self._operations.delete(queue, group))

    async def describe(self, queue: str) -> QueueDescription:
        return await self._runtime.wait(self._operations.describe(queue))

    async def queues(self) -> list[str]:
        return await self._runtime.wait(self._operations.queues())

    async def groups(self, queue: str) -> list[GroupDescription]:
        return await self._runtime.wait(self._operations.groups(queue))

    # Publishing

    async def put(
        self,
        queue: str,
        value: Value,
        key: Value | None = None,
        headers: Headers | None = None,
        *,
        partition: int | None = None,
        **carried: Unpack[Carried],
    ) -> str:
        parts = parts_of(value, key, headers, **carried)
        return await self._runtime.ask_and_wait(self._operations.put(queue, parts, partition))

    async def put_many(
        self,
        queue: str,
        values: Sendable,
        keys: Sequence[Value] | None = None,
        headers: Headers | Sequence[Headers] | None = None,
        *,
        partition: int | None = None,
        expires_in: Seconds | None = None,
    ) -> list[Placed]:
        columns = many_messages(values, keys, headers, expires_in)
        runtime = self._runtime
        return await runtime.wait(self._operations.put_many(queue, columns, runtime.publisher, partition))

    async def publish(
        self,
        topic: str,
        value: Value,
        key: Value | None = None,
        headers: Headers | None = None,
        **carried: Unpack[Carried],
    ) -> list[str]:
        columns = one_message(value, key, headers, topic=topic, **carried)
        return await self._runtime.wait(self._operations.publish(columns, self._runtime.publisher))

    def transaction(self) -> AsyncTransaction:
        return AsyncTransaction(self._runtime, self._runtime.publisher)

    async def request(
        self,
        queue: str,
        value: Value,
        key: Value | None = None,
        headers: Headers | None = None,
        *,
        timeout: Seconds = 30.0,  # noqa: ASYNC109  # as the plain face has it
    ) -> StoredMessage:
        runtime = self._runtime
        work = self._replies.request(queue, value, key, headers, seconds(timeout), runtime.publisher)
        return await runtime.wait(work)

    # Consuming

    def consume(
        self,
        queue: str,
        group: str = "default",
        *,
        filter: str | None = None,
        start: str = "earliest",
        prefetch: int | None = None,
        idle_timeout: float | None = None,
        auto_ack: float | None = None,
    ) -> AsyncConsumer:
        """Not awaited: `async with db.consume(…) as messages`, or `async for` at once."""
        runtime = self._runtime
        opening = partial(Subscription.open, runtime, queue, group, filter, start, prefetch)
        return AsyncConsumer(runtime, opening, idle_timeout, auto_ack)

    async def browse(
        self, queue: str, start: str = "earliest", *, partition: int | None = None, limit: int | None = None
    ) -> AsyncIterator[StoredMessage]:
        browsing = Browsing(self._runtime, queue, start, partition)
        left = limit
        while page := await self._runtime.wait(browsing.page(PAGE if left is None else min(left, PAGE))):
            for message in page:
                yield message
            left = None if left is None else left - len(page)

    async def redrive(
        self,
        queue: str,
        *,
        ids: Collection[str] = (),
        group: str | None = None,
        to: str | None = None,
        to_all_groups: bool = False,
        rate: float | None = None,
        limit: int | None = None,
    ) -> Report:
        options = redrive_options(ids, group, to_all_groups, rate, limit)
        return await self._runtime.wait(self._operations.redrive(queue, options, to))

    async def replay(self, queue: str, group: str = "default", start: str = "earliest") -> None:
        await self._runtime.wait(self._operations.replay(queue, group, start))

    async def commit(self, queue: str, group: str, partition: int, offset: int) -> int:
        return await self._runtime.wait(self._operations.commit(queue, group, partition, offset))

    # Workers

    def worker(
        self, queue: str, group: str = "default", *, concurrency: int = 1, prefetch: int = 100, start: str = "earliest"
    ) -> Registration:
        """Async functions are called on the loop of run(), plain ones in threads."""
        return self._crew.register(Job(queue, group, concurrency, prefetch, start))

    async def run(self) -> None:
        await self._crew.run_async()

    def stop(self) -> None:
        """Let run() end. For any thread."""
        self._crew.ask_to_stop()
