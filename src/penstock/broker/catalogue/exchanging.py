"""Exchanges and bindings coming and going, for every door. Each change is one commit before it takes effect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from penstock.broker.catalogue.configuration import Configuration
from penstock.broker.catalogue.declarations import Declaring
from penstock.broker.catalogue.exchanges import binding_record, record_of
from penstock.broker.queues.queue import Queue
from penstock.core.errors import DefaultExchange, ExchangeInUse, ExchangeReserved, NoSuchBinding
from penstock.queues.exchange_headers import NO_HEADERS, Headers, Value
from penstock.queues.exchange_records import binding_key, exchange_key
from penstock.queues.exchange_topics import DEFAULT_EXCHANGE, TOPIC_EXCHANGE, filter_of_key, key_of_filter
from penstock.queues.exchange_types import Binding, Destination
from penstock.queues.exchanges import Exchange, Exchanges, Routed, check_key

_NO_ARGUMENTS: Mapping[str, Value] = {}


class Bound(NamedTuple):
    """A binding as it is listed."""

    source: str
    destination: Destination
    key: str
    arguments: Mapping[str, Value]


class Exchanging:
    """Used from the loop."""

    def __init__(self, configuration: Configuration, declaring: Declaring) -> None:
        self._configuration, self._declaring, self._book = configuration, declaring, declaring.exchanges
        self._locks: dict[str, asyncio.Lock] = {}

    # Looking

    def of(self, namespace: str) -> Exchanges:
        return self._book.of(namespace)

    def version(self, namespace: str) -> int:
        """Changes whenever a route of the namespace may have."""
        return self._declaring.bindings_of(namespace).version

    def route(self, namespace: str, exchange: str, key: bytes, headers: Headers = NO_HEADERS) -> Routed:
        """See Exchanges.route()."""
        return self.of(namespace).route(exchange, key, headers)

    def bindings(
        self, namespace: str, source: str | None = None, destination: Destination | None = None
    ) -> list[Bound]:
        """All, or those from an exchange, to a queue or an exchange, or both; the topics of queues as bindings to
        `amq.topic`. Not those of the default exchange, which every queue has."""
        space = self.of(namespace)
        if source is not None:
            found = space.bindings_of(source)
        else:
            found = space.bindings if destination is None else space.bindings_to(destination)
        told = [Bound(each.source, each.destination, each.key, each.arguments) for each in found]
        if source in (None, TOPIC_EXCHANGE):
            told += self._topics(namespace, destination)
        return [each for each in told if destination in (None, each.destination)]

    def _topics(self, namespace: str, destination: Destination | None) -> list[Bound]:
        topics, told = self._declaring.bindings_of(namespace), list[Bound]()
        for space, name in self._declaring.queues:
            if space != namespace or destination not in (None, Destination("queue", name)):
                continue
            keys = [key_of_filter(topic_filter) for topic_filter in topics.filters(name)]
            mine = Destination("queue", name)
            told += [Bound(TOPIC_EXCHANGE, mine, key, _NO_ARGUMENTS) for key in keys if key is not None]
        return told

    # Exchanges

    async def declare(self, namespace: str, exchange: Exchange) -> bool:
        """False if it is there already, the same in everything. ExchangeDiffers, ExchangeReserved, ExchangeLimit,
        InvalidArgument."""
        async with self._lock(namespace):
            space = self.of(namespace)
            if not space.check_declare(exchange):
                return False
            if exchange.is_durable:
                record = record_of(namespace, exchange)
                await self._configuration.write((exchange_key(namespace, exchange.name), record))
            return space.declare(exchange)

    async def delete(self, namespace: str, name: str, *, if_unused: bool = False) -> None:
        """With all bindings from it and to it, and exchanges that go with the last of these. NoSuchExchange,
        ExchangeReserved, ExchangeInUse."""
        async with self._lock(namespace):
            space = self.of(namespace)
            if space.find(name).is_predeclared:
                raise ExchangeReserved(name, "is always there and cannot be deleted")
            if if_unused and (bindings := len(space.bindings_of(name))):
                raise ExchangeInUse(name, bindings)
            removal = self._book.removal(namespace, exchange=name)
            if changes := self._book.changes(namespace, removal):
                await self._configuration.write(*changes)
            space.remove(removal)

    # Bindings

    async def bind(
        self,
        namespace: str,
        source: str,
        destination: Destination,
        key: str = "",
        arguments: Mapping[str, Value] | None = None,
    ) -> bool:
        """False if it is bound so already. NoSuchExchange, NoSuchQueue, DefaultExchange, ExchangeLimit,
        InvalidArgument."""
        async with self._lock(namespace):
            space, arguments = self.of(namespace), arguments or _NO_ARGUMENTS
            space.find(source)
            if DEFAULT_EXCHANGE in (source, destination.name):
                raise DefaultExchange
            check_key(key)
            if destination.kind == "exchange":
                space.find(destination.name)
                return await self._bind(namespace, source, destination, key, arguments, None)
            queue = self._declaring.called(destination.name, namespace)
            if queue.record.is_auto:
                await self._declaring.keep(queue)
            if (topic_filter := as_filter(source, destination, key, arguments)) is not None:
                return await self._declaring.change_topic(queue, topic_filter, is_wanted=True)
            mine = Destination("queue", queue.name)
            if queue.is_volatile:  # nothing is waited for, in which it might go
                return await self._bind(namespace, source, mine, key, arguments, queue)
            async with self._declaring.holding(queue):
                return await self._bind(namespace, source, mine, key, arguments, queue)

    async def _bind(
        self,
        namespace: str,
        source: str,
        destination: Destination,
        key: str,
        arguments: Mapping[str, Value],
        queue: Queue | None,
    ) -> bool:
        space = self.of(namespace)
        if space.bound(source, destination, key, arguments) is not None:
            return False
        binding = space.new_binding(source, destination, key, arguments)
        self._book.begin(namespace, binding)
        try:
            if self._book.is_stored(namespace, binding):
                record = binding_record(namespace, binding, None if queue is None else queue.incarnation)
                await self._configuration.write((binding_key(namespace, binding.number), record))
        finally:
            self._book.end(namespace, binding)
        space.bind(binding)
        return True

    async def unbind(
        self,
        namespace: str,
        source: str,
        destination: Destination,
        key: str = "",
        arguments: Mapping[str, Value] | None = None,
    ) -> None:
        """An exchange that goes with the last of its bindings goes too. NoSuchExchange, NoSuchQueue, NoSuchBinding,
        DefaultExchange."""
        async with self._lock(namespace):
            space, arguments = self.of(namespace), arguments or _NO_ARGUMENTS
            space.find(source)
            if DEFAULT_EXCHANGE in (source, destination.name):
                raise DefaultExchange
            if destination.kind == "exchange":
                space.find(destination.name)
            else:
                queue = self._declaring.called(destination.name, namespace)
                destination = Destination("queue", queue.name)
                topic_filter = as_filter(source, destination, key, arguments)
                if topic_filter is not None and await self._declaring.change_topic(
                    queue, topic_filter, is_wanted=False
                ):
                    return
            found = space.bound(source, destination, key, arguments)
            if found is None:
                raise NoSuchBinding(source, str(destination), key)
            await self._unbind(namespace, found)

    async def _unbind(self, namespace: str, binding: Binding) -> None:
        removal = self._book.removal(namespace, bindings=[binding])
        if changes := self._book.changes(namespace, removal):
            await self._configuration.write(*changes)
        self.of(namespace).remove(removal)

    def changing(self, namespace: str) -> asyncio.Lock:
        """While it is held nobody else changes exchanges or bindings there."""
        return self._lock(namespace)

    def _lock(self, namespace: str) -> asyncio.Lock:
        """One change of a namespace after the other."""
        return self._locks.setdefault(namespace, asyncio.Lock())


def as_filter(source: str, destination: Destination, key: str, arguments: Mapping[str, Value]) -> str | None:
    """The filter of its topics that a queue's binding is: the same thing, seen twice."""
    if source != TOPIC_EXCHANGE or destination.kind != "queue" or arguments:
        return None
    return filter_of_key(key)
