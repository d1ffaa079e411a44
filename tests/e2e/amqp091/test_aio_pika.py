"""aio-pika: robust connections, RPC, exchanges, TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError, PublishError
from aio_pika.patterns import RPC
from tests.e2e.amqp091.broker import AmqpBroker

WAIT_S = 15


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S * 2):
            await work()

    asyncio.run(bounded())


def test_work_is_shared_and_acknowledged(broker: AmqpBroker, name: str) -> None:
    async def work() -> None:
        async with await aio_pika.connect_robust(broker.url) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=10)
            queue = await channel.declare_queue(name, durable=True)
            done: list[bytes] = []
            everything = asyncio.Event()

            async def take(message: AbstractIncomingMessage) -> None:
                async with message.process():
                    done.append(message.body)
                    if len(done) == 200:
                        everything.set()

            await queue.consume(take)
            await queue.consume(take)
            sending = [
                channel.default_exchange.publish(
                    aio_pika.Message(b"%d" % number, delivery_mode=aio_pika.DeliveryMode.PERSISTENT), name
                )
                for number in range(200)
            ]
            await asyncio.gather(*sending)
            await everything.wait()
            assert {int(body) for body in done} == set(range(200))
            assert len(done) == 200

    run(work)


def test_mandatory_messages_that_go_nowhere_are_an_error(broker: AmqpBroker, name: str) -> None:
    async def work() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel(on_return_raises=True)
            with pytest.raises((DeliveryError, PublishError)):
                await channel.default_exchange.publish(aio_pika.Message(b"x"), name, mandatory=True)

    run(work)


def test_remote_calls(broker: AmqpBroker, name: str) -> None:
    async def double(*, number: int) -> int:
        return number * 2

    async def work() -> None:
        async with await aio_pika.connect_robust(broker.url) as connection:
            rpc = await RPC.create(await connection.channel())
            await rpc.register(name, double, auto_delete=True)
            answers = await asyncio.gather(*(rpc.call(name, kwargs={"number": number}) for number in range(20)))
            assert answers == [number * 2 for number in range(20)]

    run(work)


def test_topics_and_headers(broker: AmqpBroker, name: str) -> None:
    async def work() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC)
            queue = await channel.declare_queue(exclusive=True)
            await queue.bind(exchange, "orders.*.created")
            for key in ("orders.eu.created", "orders.eu.gone", "orders.us.created"):
                message = aio_pika.Message(key.encode(), headers={"key": key, "size": 3, "inner": {"a": [1, "b"]}})
                await exchange.publish(message, key, mandatory=False)
            for key in ("orders.eu.created", "orders.us.created"):
                found = await queue.get(timeout=WAIT_S)
                assert (found.routing_key, found.exchange) == (key, name)
                assert found.headers == {"key": key, "size": 3, "inner": {"a": [1, "b"]}}
                await found.ack()
            assert await queue.get(fail=False) is None

    run(work)


def test_a_transaction(broker: AmqpBroker, name: str) -> None:
    async def work() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue(name, exclusive=True)
            async with channel.transaction():
                for body in (b"1", b"2"):
                    await channel.default_exchange.publish(aio_pika.Message(body), name)
            assert (await queue.get(timeout=WAIT_S, no_ack=True)).body == b"1"
            assert (await queue.get(timeout=WAIT_S, no_ack=True)).body == b"2"

    run(work)


def test_a_declaration_that_differs_is_refused(broker: AmqpBroker, name: str) -> None:
    async def work() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            await (await connection.channel()).declare_queue(name, durable=True, arguments={"x-max-length": 5})
            with pytest.raises(ChannelPreconditionFailed, match=r"inequivalent arg 'x-max-length'"):
                await (await connection.channel()).declare_queue(name, durable=True, arguments={"x-max-length": 6})
            await (await connection.channel()).queue_delete(name)

    run(work)


def test_tls(broker: AmqpBroker) -> None:
    async def work() -> None:
        async with await aio_pika.connect(broker.tls_url, ssl_context=broker.tls()) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(bytes(1 << 20)), queue.name)
            assert len((await queue.get(timeout=WAIT_S, no_ack=True)).body) == 1 << 20

    run(work)


class Relay:
    """Between a client and the broker, to cut them apart."""

    def __init__(self, broker: AmqpBroker) -> None:
        self._broker = broker
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._broker.port)
        self._writers += [writer, back]
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._carry(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(1 << 16):
                sink.write(data)
        sink.close()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def close(self) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks)


def test_a_robust_connection_comes_back(broker: AmqpBroker, name: str) -> None:
    """Its consumers are there again."""

    async def work() -> None:
        relay = Relay(broker)
        url = broker.url.replace(str(broker.port), str(await relay.start()))
        connection = await aio_pika.connect_robust(url, reconnect_interval=0.1)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(name, durable=True)
            came: asyncio.Queue[bytes] = asyncio.Queue()

            async def take(message: AbstractIncomingMessage) -> None:
                await came.put(message.body)
                await message.ack()

            await queue.consume(take)
            await channel.default_exchange.publish(aio_pika.Message(b"before"), name)
            assert await came.get() == b"before"
            back = asyncio.Event()
            connection.reconnect_callbacks.add(lambda *_: back.set())
            relay.cut()
            await back.wait()
            async with await aio_pika.connect(broker.url) as other:
                await (await other.channel()).default_exchange.publish(aio_pika.Message(b"after"), name)
            while await came.get() != b"after":
                pass
        await relay.close()

    run(work)
