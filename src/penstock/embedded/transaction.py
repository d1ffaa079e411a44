"""Publishing and settling, all or nothing: gathered here, done in one commit when the block ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Unpack

from penstock.broker.feed.held import Held
from penstock.broker.publish.publisher import Publisher
from penstock.broker.queues.queue import Placed
from penstock.core.errors import InvalidArgument
from penstock.embedded.message import DeliveredMessage, held_of
from penstock.embedded.outgoing import Carried, Headers, Sendable, Value, many_messages, one_message
from penstock.embedded.runtime import Runtime
from penstock.log.columns import Columns


@dataclass(slots=True)
class _Put:
    queue: str
    columns: Columns
    partition: int | None


@dataclass(slots=True)
class Gathered:
    """put() and ack() change nothing before the end of the block. A block that raises leaves nothing behind."""

    runtime: Runtime
    publisher: Publisher
    placed: list[list[Placed]] = field(default_factory=list)
    """after the end: where the messages of each put went"""
    _puts: list[_Put] = field(default_factory=list)
    _acks: list[Held] = field(default_factory=list)
    _is_over: bool = False

    def put(
        self,
        queue: str,
        value: Value,
        key: Value | None = None,
        headers: Headers | None = None,
        *,
        partition: int | None = None,
        **carried: Unpack[Carried],
    ) -> None:
        self._refuse_late()
        self._puts.append(_Put(queue, one_message(value, key, headers, **carried), partition))

    def put_many(
        self, queue: str, values: Sendable, keys: Iterable[Value] | None = None, headers: Headers | None = None
    ) -> None:
        self._refuse_late()
        self._puts.append(_Put(queue, many_messages(values, None if keys is None else list(keys), headers), None))

    def ack(self, message: DeliveredMessage) -> None:
        self.ack_many([message])

    def ack_many(self, messages: Iterable[DeliveredMessage]) -> None:
        self._refuse_late()
        self._acks += held_of(messages)

    def _refuse_late(self) -> None:
        if self._is_over:
            raise InvalidArgument("the transaction is over: begin another one")

    async def _commit(self) -> None:
        transaction = self.runtime.broker.transaction(self.publisher)
        for put in self._puts:
            transaction.put(self.runtime.wanted(put.queue), put.columns, put.partition)
        for held in self._acks:
            transaction.ack(held)
        self.placed = [published.placed for published in await transaction.commit()]


class Transaction(Gathered):
    """Durable when the block has ended. StaleSettlement, with nothing done, if a message to settle was taken back."""

    __slots__ = ()

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._refuse_late()
        self._is_over = True
        if kind is None:
            self.runtime.run(self._commit())


class AsyncTransaction(Gathered):
    """As Transaction."""

    __slots__ = ()

    async def __aenter__(self) -> AsyncTransaction:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._refuse_late()
        self._is_over = True
        if kind is None:
            await self.runtime.wait(self._commit())
