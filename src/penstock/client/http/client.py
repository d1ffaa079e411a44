"""`Client`: queues, topics and the server itself over HTTP, from threads. `penstock.Client` is this."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, Unpack
from weakref import WeakSet

from penstock.client.http import admin
from penstock.client.http.answers import Page
from penstock.client.http.async_client import AsyncClient
from penstock.client.http.calls import AdminCalls
from penstock.client.http.close_after import close_after
from penstock.client.http.incoming import StoredMessage
from penstock.client.http.options import URL, HttpOptions, Retries, TlsFiles
from penstock.client.http.outgoing import Acks, Carried, Headers, Key, QueueCarried
from penstock.client.http.requests import Ask, segment
from penstock.client.loop_thread import LoopThread
from penstock.codecs.http.exchanges import ExchangeReport
from penstock.codecs.http.messages import PublishedMessage, TopicReport
from penstock.core.closing import Closing
from penstock.core.errors import Closed

if TYPE_CHECKING:
    import ssl

    from penstock.client.http.consumers import Consumer
    from penstock.client.http.events import Event
    from penstock.client.http.producers import Producer

    Events = Generator[Event, None, None]
    """close() ends it"""

T = TypeVar("T")


class Client(Closing, AdminCalls):
    """Use with `with`, or close() it; any thread may call it. Each method does what that of AsyncClient does, and waits
    for it."""

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
        self._client = AsyncClient(
            url,
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
        self._producers: WeakSet[Producer] = WeakSet()
        self._consumers: WeakSet[Consumer] = WeakSet()
        self._thread = LoopThread("penstock-client", "the client was closed: make another one to go on")
        self._thread.start()

    @property
    def options(self) -> HttpOptions:
        return self._client.options

    def close(self) -> None:
        """Producers are flushed, consumers stopped and what they settled is sent; then the connections go. Calling it
        again does nothing."""
        self._close_after(None)

    def ask(self, ask: Ask[T]) -> T:
        return self._thread.run(self._client.ask(ask))

    def ask_all(self, ask: Ask[Page[T]]) -> list[T]:
        return self._thread.run(self._client.ask_all(ask))

    # Publishing

    def publish(
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
        return self._thread.run(
            self._client.publish(
                queue,
                value,
                key,
                headers,
                partition=partition,
                acks=acks,
                idempotency_key=idempotency_key,
                **carried,
            )
        )

    def publish_many(
        self, queue: str, values: Sequence[object], *, acks: Acks = "all", idempotency_key: str | None = None
    ) -> list[PublishedMessage]:
        return self._thread.run(self._client.publish_many(queue, values, acks=acks, idempotency_key=idempotency_key))

    def publish_topic(
        self,
        topic: str,
        value: object,
        *,
        qos: int = 1,
        retain: bool = False,
        headers: Headers | None = None,
        **carried: Unpack[Carried],
    ) -> TopicReport:
        return self._thread.run(
            self._client.publish_topic(topic, value, qos=qos, retain=retain, headers=headers, **carried)
        )

    def publish_exchange(
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
        return self._thread.run(
            self._client.publish_exchange(
                exchange, value, routing_key, key=key, headers=headers, mandatory=mandatory, **carried
            )
        )

    def producer(
        self,
        queue: str,
        *,
        batch_messages: int = 100,
        linger_s: float = 0.005,
        batch_bytes: int = 64 << 10,
        acks: Acks = "all",
        max_unsent_bytes: int = 16 << 20,
    ) -> Producer:
        from penstock.client.http.accumulator import ProducerOptions
        from penstock.client.http.producers import Producer

        options = ProducerOptions(batch_messages, linger_s, batch_bytes, acks, max_unsent_bytes)
        producer = Producer(queue, options, self._client.ask, self._thread)
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
    ) -> Consumer:
        from penstock.client.http.consumers import Consumer
        from penstock.client.http.intake import ConsumeOptions

        options = ConsumeOptions(queue, group, max, wait_s, visibility_s, auto_commit, start)
        consumer = Consumer(options, self._client.requests, self._thread)
        self._consumers.add(consumer)
        return consumer

    # Looking

    def browse(
        self,
        queue: str,
        *,
        from_: str | None = None,
        until: str | None = None,
        partition: int | None = None,
        filter: str | None = None,
        page: int = 100,
    ) -> Iterator[StoredMessage]:
        cursor = None
        while True:
            found = self.ask(admin.messages(queue, from_, until, partition, filter, page, cursor))
            yield from found.messages
            cursor = found.next
            if cursor is None:
                return

    def events(self, queue: str, *, last_event_id: str | None = None, from_: str | None = None) -> Events:
        return self._events(f"/queues/{segment(queue)}/events", {"from": from_}, last_event_id)

    def topic_events(self, filter: str) -> Events:
        return self._events("/topics/events", {"filter": filter}, None)

    def _events(self, path: str, query: Mapping[str, object], last_event_id: str | None) -> Events:
        from penstock.client.http.events import EventStream

        stream = EventStream(self._client.requests, path, query, last_event_id)
        try:
            while events := self._thread.run(stream.next()):
                yield from events
        finally:
            # Closed with its client, it has no connection any more.
            with contextlib.suppress(Closed):
                self._thread.run(stream.aclose())

    def _close_after(self, error: BaseException | None) -> None:
        self._thread.close(lambda: close_after(self._end, error))

    async def _end(self) -> None:
        try:
            for producer in list(self._producers):
                await producer.end()
            for consumer in list(self._consumers):
                await consumer.end()
        finally:
            await self._client.close()
