"""kombu over py-amqp, as Celery uses it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from amqp.exceptions import NotFound, PreconditionFailed
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.pools import producers
from tests.e2e.amqp091.broker import AmqpBroker

WAIT_S = 10


@pytest.fixture
def connection(broker: AmqpBroker) -> Iterator[Connection]:
    with Connection(broker.url, transport_options={"confirm_publish": True}) as made:
        yield made


def drained(connection: Connection, queue: Queue, count: int) -> list[object]:
    found: list[object] = []

    def take(body: object, message: object) -> None:
        found.append(body)
        message.ack()  # type: ignore[attr-defined]  # kombu's

    with Consumer(connection, queues=[queue], callbacks=[take], prefetch_count=4):
        while len(found) < count:
            connection.drain_events(timeout=WAIT_S)
    return found


def test_bodies_of_every_serializer_come_back(connection: Connection, name: str) -> None:
    queue = Queue(name, Exchange(name, "direct"), routing_key="k")
    with Producer(connection) as producer:
        for serializer in ("json", "pickle", "yaml"):
            body = {"serializer": serializer, "list": [1, 2.5, None]}
            producer.publish(body, exchange=queue.exchange, routing_key="k", declare=[queue], serializer=serializer)
    found: list[dict[str, object]] = []
    accepting = Consumer(connection, queues=[queue], accept=["json", "pickle", "yaml"])

    def take(body: dict[str, object], message: Any) -> None:
        found.append(body)
        message.ack()

    accepting.register_callback(take)
    with accepting:
        while len(found) < 3:
            connection.drain_events(timeout=WAIT_S)
    assert [body["serializer"] for body in found] == ["json", "pickle", "yaml"]


def test_compressed_bodies(connection: Connection, name: str) -> None:
    queue = Queue(name)
    with Producer(connection) as producer:
        producer.publish("x" * 100_000, routing_key=name, declare=[queue], compression="zlib")
    assert drained(connection, queue, 1) == ["x" * 100_000]


def test_priorities(connection: Connection, name: str) -> None:
    queue = Queue(name, max_priority=9)
    with Producer(connection) as producer:
        for priority in (0, 9, 3):
            producer.publish(priority, routing_key=name, declare=[queue], priority=priority)
    assert drained(connection, queue, 3) == [9, 3, 0]


def test_a_pool_of_producers(connection: Connection, name: str) -> None:
    queue = Queue(name)
    for number in range(20):
        with producers[connection].acquire(block=True) as producer:
            producer.publish(number, routing_key=name, declare=[queue], retry=True)
    assert drained(connection, queue, 20) == list(range(20))
    producers[connection].force_close_all()


def test_rejected_and_requeued(connection: Connection, name: str) -> None:
    queue = Queue(name)(connection.channel())
    queue.declare()
    with Producer(connection) as producer:
        producer.publish("x", routing_key=name)
    first = queue.get()
    assert not first.delivery_info["redelivered"]
    first.requeue()
    second = queue.get()
    assert second.delivery_info["redelivered"]
    second.reject()
    assert queue.get() is None


def test_errors_are_those_of_py_amqp(connection: Connection, name: str) -> None:
    with pytest.raises(NotFound):
        connection.channel().queue_declare(name, passive=True)
    connection.channel().queue_declare(name, arguments={"x-expires": 60_000})
    with pytest.raises(PreconditionFailed):
        connection.channel().queue_declare(name, arguments={"x-expires": 70_000})


def test_nothing_comes_from_an_empty_queue(connection: Connection, name: str) -> None:
    with Consumer(connection, queues=[Queue(name)], callbacks=[print]), pytest.raises(socket.timeout):
        connection.drain_events(timeout=0.2)


def test_heartbeats(broker: AmqpBroker) -> None:
    with Connection(broker.url, heartbeat=2) as made:
        made.connect()
        for _ in range(6):
            made.heartbeat_check(rate=2)
            with pytest.raises(socket.timeout):
                made.drain_events(timeout=0.5)
        assert made.connected
