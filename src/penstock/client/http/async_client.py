"""`AsyncClient`: queues, topics and the server itself over HTTP, from asyncio. `penstock.aio.Client` is this."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Self, TypeVar, Unpack
from weakref import WeakSet

from penstock.client.http import admin
from penstock.client.http.answers import Page
from penstock.client.http.calls import AdminCalls, fetch_all
from penstock.client.http.close_after import close_after
from penstock.client.http.incoming import StoredMessage
from penstock.client.http.options import URL, HttpOptions, Retries, TlsFiles
from penstock.client.http.outgoing import (
    Acks,
    Carried,
    Headers,
    Key,
    QueueCarried,
    encoded,
    outgoing,
    publish_messages,
    publish_to_exchange,
    publish_to_topic,
)
from penstock.client.http.requests import Ask, Requests, segment
from penstock.codecs.http.exchanges import ExchangeReport
from penstock.codecs.http.messages import PublishedMessage, TopicReport
from penstock.core.closing import AsyncClosing

# A command that asks one thing starts sooner without what it does not use.
if TYPE_CHECKING:
    import ssl

    from penstock.client.http.consumers import AsyncConsumer
    from penstock.client.http.events import Event
    from penstock.client.http.producers import AsyncProducer

    Events = AsyncGenerator[Event, None]
    """aclose() ends it"""

T = TypeVar("T")


class AsyncClient(AsyncClosing, AdminCalls):
    """Use with `async with`, from one event loop. Every method raises HttpRefused if the server says no, and
    ConnectionLost if it cannot be reached: requests that are safe to send twice were tried again by then."""

    def __init__(
        self,
        url: str = URL,
        *,
        token: str | None = None,
        api_key: str | None = None,
        username: str | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | TlsFiles | None = None,
        namespace: str | None = None,
        timeout_s: float = 30.0,
        retries: Retries = Retries(),  # noqa: B008  # a frozen value
        max_connections: int = 32,
    ) -> None:
        self._begin(
            HttpOptions(
                url=url,
                token=token,
                api_key=api_key,
                username=username,
                password=password,
                tls=tls,
                namespace=namespace,
                timeout_s=timeout_s,
                retries=retries,
                max_connections=max_connections,
            )
        )

    @classmethod
    def of(cls, options: HttpOptions) -> Self:
        """With every option there is."""
        client = cls.__new__(cls)
        client._begin(options)
        return client

    def _begin(self, options: HttpOptions) -> None:
        self.options, self.requests = options, Requests(options)
        self._producers: WeakSet[AsyncProducer] = WeakSet()
        self._consumers: WeakSet[AsyncConsumer] = WeakSet()

    async def _close_after(self, error: BaseException | None) -> None:
        await close_after(self.close, error)

    async def close(self) -> None:
        """Producers are flushed, consumers stopped and what they settled is sent; then the connections go."""
        try:
            for producer in list(self._producers):
                await producer.close()
            for consumer in list(self._consumers):
                await consumer.close()
        finally:
            self.requests.close()

    async def ask(self, ask: Ask[T]) -> T:
        """One request, for what has no method here."""
        return await self.requests.send(ask)

    async def ask_all(self, ask: Ask[Page[T]]) -> list[T]:
        return await fetch_all(self.requests, ask)

    # Publishing

    async def publish(
        self,
        queue: str,
        value: object,
        key: Key | None = None,
        headers: Headers | None = None,
        *,
        partition: int | None = None,
        acks: Acks = "all",
        idempotency_key: str | None = None,
        **carried: Unpack[QueueCarried],
    ) -> PublishedMessage:
        """One message, stored when this returns. Bytes stay bytes, a string is text, anything else is JSON. With an
        idempotency key it is stored once however often it is sent, and sent again if its answer is lost."""
        data = encoded(outgoing(value, key, headers, partition, **carried))
        report = await self.ask(publish_messages(queue, [data], acks, idempotency_key=idempotency_key))
        return report.results[0]

    async def publish_many(
        self, queue: str, values: Sequence[object], *, acks: Acks = "all", idempotency_key: str | None = None
    ) -> list[PublishedMessage]:
        """Messages in one request: all are stored, or none."""
        data = [encoded(outgoing(value)) for value in values]
        return (await self.ask(publish_messages(queue, data, acks, idempotency_key=idempotency_key))).results

    async def publish_topic(
        self,
        topic: str,
        value: object,
        *,
        qos: int = 1,
        retain: bool = False,
        headers: Headers | None = None,
        **carried: Unpack[Carried],
    ) -> TopicReport:
        """To the subscribers of every protocol, and to the queues that are bound to it."""
        return await self.ask(publish_to_topic(topic, outgoing(value, None, headers, None, qos, retain, **carried)))

    async def publish_exchange(
        self,
        exchange: str,
        value: object,
        routing_key: str = "",
        *,
        key: Key | None = None,
        headers: Headers | None = None,
        mandatory: bool = False,
        **carried: Unpack[Carried],
    ) -> ExchangeReport:
        """To the queues that the bindings of an exchange lead to; `amq.default` is the default exchange. With
        `mandatory` a message that nobody gets is an error, and stored nowhere."""
        message = outgoing(value, key, headers, **carried)
        return await self.ask(publish_to_exchange(exchange, routing_key, message, mandatory))

    def producer(
        self,
        queue: str,
        *,
        batch_messages: int = 100,
        linger_s: float = 0.005,
        batch_bytes: int = 64 << 10,
        acks: Acks = "all",
        max_unsent_bytes: int = 16 << 20,
    ) -> AsyncProducer:
        """For many messages: gathered into batches, each stored once however often it has to be sent."""
        from penstock.client.http.accumulator import ProducerOptions
        from penstock.client.http.producers import AsyncProducer

        options = ProducerOptions(batch_messages, linger_s, batch_bytes, acks, max_unsent_bytes)
        producer = AsyncProducer(queue, options, self.requests.send)
        self._producers.add(producer)
        return producer

    # Consuming

    def consume(
        self,
        queue: str,
        group: str = "default",
        *,
        max: int = 100,
        wait_s: float = 20.0,
        visibility_s: float | None = None,
        auto_commit: float | None = None,
        start: str = "earliest",
    ) -> AsyncConsumer:
        """`async for message in client.consume("orders", "billing")`, until stop() or close(). Each message is acked,
        retried or dead-lettered; with `auto_commit` it is acknowledged when more is asked for, every so many seconds
        at most."""
        from penstock.client.http.consumers import AsyncConsumer
        from penstock.client.http.intake import ConsumeOptions

        options = ConsumeOptions(queue, group, max, wait_s, visibility_s, auto_commit, start)
        consumer = AsyncConsumer(options, self.requests)
        self._consumers.add(consumer)
        return consumer

    # Looking

    async def browse(
        self,
        queue: str,
        *,
        from_: str | None = None,
        until: str | None = None,
        partition: int | None = None,
        filter: str | None = None,
        page: int = 100,
    ) -> AsyncGenerator[StoredMessage, None]:
        """Stored messages, without consuming them, up to the end of the queue. `from_`: earliest, latest, `offset:N`, a
        time, or a duration: so long ago; `until`: a time or `offset:N`."""
        cursor = None
        while True:
            found = await self.ask(admin.messages(queue, from_, until, partition, filter, page, cursor))
            for message in found.messages:
                yield message
            cursor = found.next
            if cursor is None:
                return

    def events(self, queue: str, *, last_event_id: str | None = None, from_: str | None = None) -> Events:
        """Messages of a queue as they come, nothing consumed; without `from_` from now on. Lost connections are made
        anew where the stream broke off."""
        return self._events(f"/queues/{segment(queue)}/events", {"from": from_}, last_event_id)

    def topic_events(self, filter: str) -> Events:
        """Messages of topics as they come; those of a lost connection are lost."""
        return self._events("/topics/events", {"filter": filter}, None)

    async def _events(self, path: str, query: Mapping[str, object], last_event_id: str | None) -> Events:
        from penstock.client.http.events import EventStream

        async with aclosing(EventStream(self.requests, path, query, last_event_id)) as stream:
            while events := await stream.next():
                for event in events:
                    yield event
