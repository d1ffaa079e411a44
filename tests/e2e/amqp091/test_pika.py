"""pika's blocking connection, as programs use it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    UnroutableError,
)
from tests.e2e.amqp091.broker import AmqpBroker

WAIT_S = 10


def connect(broker: AmqpBroker, **options: Any) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, **options))


@pytest.fixture
def connection(broker: AmqpBroker) -> Iterator[pika.BlockingConnection]:
    made = connect(broker)
    yield made
    if made.is_open:
        made.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


def taken(channel: BlockingChannel, queue: str, count: int, **options: Any) -> list[tuple[Any, Any, bytes]]:
    """Consumed, acknowledged; TimeoutError by a short list."""
    found = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=WAIT_S, **options):
        if method is None:
            break
        found.append((method, properties, body))
        if not options.get("auto_ack"):
            channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def count_of(channel: BlockingChannel, queue: str) -> int:
    found: int = channel.queue_declare(queue, passive=True).method.message_count
    return found


def holds(channel: BlockingChannel, queue: str, count: int) -> bool:
    """Waits for it: RabbitMQ's queues answer before they have taken what was published."""
    until(channel.connection, lambda: count_of(channel, queue) == count)
    return True


def test_confirmed_messages_are_consumed_in_order(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    for number in range(100):
        channel.basic_publish("", name, b"%d" % number, pika.BasicProperties(delivery_mode=2), mandatory=True)
    assert holds(channel, name, 100)
    assert [body for _, _, body in taken(channel, name, 100)] == [b"%d" % number for number in range(100)]
    assert holds(channel, name, 0)


def test_what_is_not_confirmed_is_stored_too(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    for number in range(50):
        channel.basic_publish("", name, b"%d" % number)
    assert holds(channel, name, 50)


def test_unroutable_is_returned(channel: BlockingChannel, name: str) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as refused:
        channel.basic_publish("", name, b"lost", pika.BasicProperties(message_id="7"), mandatory=True)
    [message] = refused.value.messages
    assert (message.method.reply_code, message.method.reply_text) == (312, "NO_ROUTE")
    assert (message.body, message.properties.message_id) == (b"lost", "7")
    channel.basic_publish("", name, b"nobody asks")


def test_a_full_queue_refuses(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", name, b"1")
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"2")


def test_max_length_drops_the_oldest(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-max-length": 3})
    for number in range(10):
        channel.basic_publish("", name, b"%d" % number)
    assert [body for _, _, body in taken(channel, name, 3)] == [b"7", b"8", b"9"]


def test_prefetch_bounds_what_is_not_acknowledged(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name)
    for number in range(6):
        channel.basic_publish("", name, b"%d" % number)
    channel.basic_qos(prefetch_count=2)
    came: list[int] = []
    channel.basic_consume(name, lambda _, method, __, ___: came.append(method.delivery_tag))
    until(connection, lambda: len(came) == 2)
    assert holds(channel, name, 4)
    channel.basic_ack(2, multiple=True)
    until(connection, lambda: len(came) == 4)
    assert holds(channel, name, 2)


def until(connection: pika.BlockingConnection, is_so: Any) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        connection.process_data_events(0.05)


def test_requeued_comes_again(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    for body in (b"1", b"2"):
        channel.basic_publish("", name, body)
    method, _, body = channel.basic_get(name)
    assert (body, method.redelivered, method.message_count) == (b"1", False, 1)
    channel.basic_nack(method.delivery_tag, requeue=True)
    method, _, body = channel.basic_get(name)
    assert (body, method.redelivered) == (b"1", True)
    channel.basic_reject(method.delivery_tag, requeue=False)
    assert channel.basic_get(name, auto_ack=True)[2] == b"2"
    assert channel.basic_get(name) == (None, None, None)


def test_unacknowledged_come_back_when_the_channel_closes(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name)
    channel.basic_publish("", name, b"x")
    channel.basic_get(name)
    channel.close()
    other = connection.channel()
    method, _, _ = other.basic_get(name)
    assert method.redelivered


def test_transactions(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    channel.tx_select()
    channel.basic_publish("", name, b"back")
    channel.tx_rollback()
    channel.basic_publish("", name, b"done")
    assert holds(channel, name, 0)
    channel.tx_commit()
    method, _, body = channel.basic_get(name)
    assert body == b"done"
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()


def test_exclusive_queues_with_names_of_the_server(broker: AmqpBroker, channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    assert queue.startswith("amq.gen-")
    with closing(connect(broker)) as other:
        with pytest.raises(ChannelClosedByBroker) as refused:
            other.channel().queue_declare(queue, passive=True)
        assert refused.value.reply_code == 405
    channel.basic_publish("", queue, b"x")
    assert channel.basic_get(queue, auto_ack=True)[2] == b"x"


def test_exclusive_queues_go_with_their_connection(broker: AmqpBroker, channel: BlockingChannel) -> None:
    other = connect(broker)
    queue = other.channel().queue_declare("", exclusive=True).method.queue
    other.close()
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.queue_declare(queue, passive=True)
    assert refused.value.reply_code == 404


def test_requests_with_direct_replies(broker: AmqpBroker, name: str) -> None:
    with closing(connect(broker)) as asking, closing(connect(broker)) as answering:
        client, server = asking.channel(), answering.channel()
        server.queue_declare(name)
        answers: list[tuple[str, bytes]] = []
        client.basic_consume(
            "amq.rabbitmq.reply-to",
            lambda _, __, properties, body: answers.append((properties.correlation_id, body)),
            auto_ack=True,
        )
        for number in range(3):
            properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=str(number))
            client.basic_publish("", name, b"%d" % number, properties)
        for _, asked, body in taken(server, name, 3):
            said = pika.BasicProperties(correlation_id=asked.correlation_id)
            server.basic_publish("", asked.reply_to, body * 2, said)
        until(asking, lambda: len(answers) == 3)
        assert answers == [("0", b"00"), ("1", b"11"), ("2", b"22")]


HEADERS = {
    "text": "größe",
    "bytes": b"\x00\xff",
    "small": 5,
    "negative": -70_000,
    "long": 2**40,
    "yes": True,
    "no": False,
    "none": None,
    "list of nothing": [],
    "decimal": Decimal("1.25"),
    "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).replace(tzinfo=None),
    "list": [1, "two", [3]],
    "table": {"inner": {"deep": 1}},
}


def test_properties_and_headers_come_as_they_were_sent(channel: BlockingChannel, name: str) -> None:
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers=HEADERS,
        delivery_mode=2,
        priority=4,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="k",
    )
    encoded = b"".join(sent.encode())
    channel.queue_declare(name)
    channel.basic_publish("", name, b"body", sent)
    _, got, body = channel.basic_get(name, auto_ack=True)
    assert body == b"body"
    assert b"".join(got.encode()) == encoded


def test_exchanges_of_all_types(channel: BlockingChannel, name: str) -> None:
    for kind, key, right, wrong in (
        ("direct", "k", "k", "j"),
        ("topic", "a.*.#", "a.b.c.d", "a"),
        ("fanout", "", "anything", None),
    ):
        exchange, queue = f"{name}.{kind}", f"{name}.{kind}.q"
        channel.exchange_declare(exchange, kind)
        channel.queue_declare(queue)
        channel.queue_bind(queue, exchange, key)
        channel.basic_publish(exchange, right, b"right")
        if wrong is not None:
            channel.basic_publish(exchange, wrong, b"wrong")
        assert holds(channel, queue, 1)
        channel.exchange_delete(exchange)
        channel.queue_delete(queue)


def test_headers_exchange(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "headers")
    channel.queue_declare(name)
    channel.queue_bind(name, name, "", {"x-match": "all", "kind": "a", "size": 1})
    for headers in ({"kind": "a", "size": 1, "more": 2}, {"kind": "a"}, {}):
        channel.basic_publish(name, "", b"", pika.BasicProperties(headers=headers))
    assert holds(channel, name, 1)


def test_exchange_to_exchange_and_alternate(channel: BlockingChannel, name: str) -> None:
    source, target, rest = f"{name}.source", f"{name}.target", f"{name}.rest"
    channel.exchange_declare(rest, "fanout")
    channel.exchange_declare(source, "direct", arguments={"alternate-exchange": rest})
    channel.exchange_declare(target, "fanout")
    channel.exchange_bind(target, source, "k")
    for exchange in (target, rest):
        channel.queue_declare(exchange)
        channel.queue_bind(exchange, exchange)
    channel.basic_publish(source, "k", b"")
    channel.basic_publish(source, "other", b"")
    channel.basic_publish(source, "other", b"")
    assert holds(channel, target, 1)
    assert holds(channel, rest, 2)


def test_dead_letters_of_expired_and_rejected(connection: pika.BlockingConnection, name: str) -> None:
    channel, dead = connection.channel(), f"{name}.dead"
    channel.exchange_declare(f"{name}.dlx", "fanout")
    channel.queue_declare(dead)
    channel.queue_bind(dead, f"{name}.dlx")
    channel.queue_declare(name, arguments={"x-dead-letter-exchange": f"{name}.dlx", "x-message-ttl": 100})
    channel.basic_publish("", name, b"expired")
    until(connection, lambda: count_of(channel, dead) == 1)
    channel.basic_publish("", name, b"rejected")
    method, _, _ = channel.basic_get(name)
    channel.basic_reject(method.delivery_tag, requeue=False)
    found = taken(channel, dead, 2)
    assert [body for _, _, body in found] == [b"expired", b"rejected"]
    deaths = [properties.headers["x-death"][0] for _, properties, _ in found]
    assert [(death["reason"], death["queue"], death["count"]) for death in deaths] == [
        ("expired", name, 1),
        ("rejected", name, 1),
    ]
    assert [properties.headers["x-first-death-reason"] for _, properties, _ in found] == ["expired", "rejected"]


def test_a_waiting_room_of_ttl_and_dead_letters(connection: pika.BlockingConnection, name: str) -> None:
    channel, waiting = connection.channel(), f"{name}.waiting"
    channel.queue_declare(name)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}
    channel.queue_declare(waiting, arguments=arguments)
    for number in range(20):
        channel.basic_publish("", waiting, b"%d" % number, pika.BasicProperties(expiration="200"))
    assert [body for _, _, body in taken(channel, name, 20)] == [b"%d" % number for number in range(20)]


def test_messages_of_higher_priority_come_first(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-max-priority": 9})
    for priority in (1, 9, 0, 5, 9):
        channel.basic_publish("", name, b"%d" % priority, pika.BasicProperties(priority=priority))
    assert [body for _, _, body in taken(channel, name, 5)] == [b"9", b"9", b"5", b"1", b"0"]


def test_consumers_of_higher_priority_come_first(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name)
    came: list[str] = []
    for tag, priority in (("low", 0), ("high", 10)):
        channel.basic_consume(
            name,
            lambda _, method, __, ___: came.append(method.consumer_tag),
            consumer_tag=tag,
            arguments={"x-priority": priority},
        )
    for _ in range(5):
        channel.basic_publish("", name, b"")
    until(connection, lambda: len(came) == 5)
    assert came == ["high"] * 5


def test_a_consumer_is_told_that_its_queue_is_gone(connection: pika.BlockingConnection, name: str) -> None:
    channel, other = connection.channel(), connection.channel()
    channel.queue_declare(name)
    gone: list[str] = []
    channel.add_on_cancel_callback(lambda frame: gone.append(frame.method.consumer_tag))
    tag = channel.basic_consume(name, lambda *_: None)
    other.queue_delete(name)
    until(connection, lambda: gone == [tag])


def test_single_active_consumer(connection: pika.BlockingConnection, name: str) -> None:
    first, second = connection.channel(), connection.channel()
    first.queue_declare(name, arguments={"x-single-active-consumer": True})
    came: list[str] = []
    for channel, tag in ((first, "first"), (second, "second")):
        channel.basic_consume(
            name, lambda _, method, __, ___: came.append(method.consumer_tag), auto_ack=True, consumer_tag=tag
        )
    for _ in range(4):
        second.basic_publish("", name, b"")
    until(connection, lambda: len(came) == 4)
    first.close()
    second.basic_publish("", name, b"")
    until(connection, lambda: len(came) == 5)
    assert came == ["first"] * 4 + ["second"]


def test_large_messages(channel: BlockingChannel, name: str) -> None:
    body = bytes(range(256)) * (4 << 12)
    channel.queue_declare(name)
    channel.confirm_delivery()
    channel.basic_publish("", name, body)
    assert channel.basic_get(name, auto_ack=True)[2] == body
    channel.queue_delete(name)


def test_too_large_messages_are_refused(broker: AmqpBroker, channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.basic_publish("", name, bytes(17 << 20))
    assert refused.value.reply_code == 406


def test_many_channels(connection: pika.BlockingConnection, name: str) -> None:
    channels = [connection.channel() for _ in range(200)]
    channels[0].queue_declare(name)
    for number, channel in enumerate(channels):
        channel.basic_publish("", name, b"%d" % number)
        assert channel.is_open
    until(connection, lambda: count_of(channels[0], name) == 200)
    for channel in channels[1:]:
        channel.close()
    bodies = {body for _, _, body in taken(channels[0], name, 200)}
    assert bodies == {b"%d" % number for number in range(200)}


def test_a_silent_client_is_disconnected(broker: AmqpBroker) -> None:
    silent = connect(broker, heartbeat=1)
    deadline = time.monotonic() + WAIT_S
    sending = silent._impl
    sending._heartbeat_checker.stop()
    while silent.is_open and time.monotonic() < deadline:
        try:
            silent.process_data_events(0.2)
        except AMQPConnectionError:
            break
    assert not silent.is_open


def test_heartbeats_keep_an_idle_connection(broker: AmqpBroker) -> None:
    with closing(connect(broker, heartbeat=1)) as idle:
        idle.sleep(4)
        assert idle.is_open
        idle.channel().queue_declare("", exclusive=True)


def test_errors_close_the_channel_only(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.queue_declare(name, passive=True)
    assert (refused.value.reply_code, refused.value.reply_text) == (
        404,
        f"NOT_FOUND - no queue '{name}' in vhost '/'",
    )
    connection.channel().queue_declare(name)


def test_hard_errors_close_the_connection(broker: AmqpBroker, name: str) -> None:
    made = connect(broker)
    channel = made.channel()
    with pytest.raises(ConnectionClosedByBroker) as refused:
        channel.basic_qos(prefetch_size=1)
    assert refused.value.reply_code == 540


def test_wrong_password_and_vhost(broker: AmqpBroker) -> None:
    with pytest.raises(AMQPConnectionError):
        connect(broker, credentials=pika.PlainCredentials("guest", "wrong"))
    with pytest.raises(AMQPConnectionError):
        connect(broker, virtual_host="missing")


def test_tls(broker: AmqpBroker, name: str) -> None:
    options = pika.SSLOptions(broker.tls(), "localhost")
    with closing(
        pika.BlockingConnection(pika.ConnectionParameters("localhost", broker.tls_port, ssl_options=options))
    ) as made:
        channel = made.channel()
        channel.queue_declare(name)
        channel.basic_publish("", name, bytes(300_000))
        assert len(channel.basic_get(name, auto_ack=True)[2]) == 300_000


def test_external_login_by_certificate(broker: AmqpBroker) -> None:
    options = pika.SSLOptions(broker.tls(with_client=True), "localhost")
    external = pika.credentials.ExternalCredentials()
    with closing(
        pika.BlockingConnection(
            pika.ConnectionParameters("localhost", broker.tls_port, ssl_options=options, credentials=external)
        )
    ) as made:
        made.channel().queue_declare("", exclusive=True)


def test_consistent_hash_spreads(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "x-consistent-hash")
    queues = [f"{name}.{number}" for number in range(3)]
    for queue in queues:
        channel.queue_declare(queue)
        channel.queue_bind(queue, name, "10")
    for number in range(300):
        channel.basic_publish(name, f"key-{number}", b"")
    until(channel.connection, lambda: sum(count_of(channel, queue) for queue in queues) == 300)
    assert min(count_of(channel, queue) for queue in queues) > 30
