"""pika's SelectConnection: many publishes on their way, confirms as they come, reconnecting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
from pika.channel import Channel
from tests.e2e.amqp091.broker import AmqpBroker

MESSAGES = 2000
_GIVE_UP_S = 30


class Program:
    """A connection that is opened, does something, and ends when that says so."""

    def __init__(self, broker: AmqpBroker, do: Callable[[Program], None]) -> None:
        self._do = do
        self.closed: list[BaseException] = []
        self.connection = pika.SelectConnection(
            pika.ConnectionParameters("127.0.0.1", broker.port),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
        )
        self.connection.ioloop.call_later(_GIVE_UP_S, self.end)

    def _opened(self, channel: Channel) -> None:
        self.channel = channel
        self._do(self)

    def _ended(self, _: Any, reason: BaseException) -> None:
        self.closed.append(reason)
        self.connection.ioloop.stop()

    def end(self) -> None:
        if self.connection.is_open:
            self.connection.close()

    def run(self) -> Program:
        self.connection.ioloop.start()
        self.connection.ioloop.close()
        return self


def test_every_message_is_confirmed_and_consumed_once(broker: AmqpBroker, name: str) -> None:
    confirmed: set[int] = set()
    bodies: list[bytes] = []

    def confirm(frame: Any) -> None:
        tag = frame.method.delivery_tag
        confirmed.update(range(1, tag + 1) if frame.method.multiple else [tag])

    def came(channel: Channel, method: Any, _: Any, body: bytes) -> None:
        bodies.append(body)
        if len(bodies) % 100 == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        look()

    def look() -> None:
        if len(bodies) == MESSAGES and len(confirmed) == MESSAGES:
            program.end()

    def declared(_: Any) -> None:
        program.channel.basic_qos(prefetch_count=500)
        program.channel.basic_consume(name, came)
        for number in range(MESSAGES):
            program.channel.basic_publish("", name, b"%d" % number, pika.BasicProperties(delivery_mode=2))

    def do(program: Program) -> None:
        def confirmed(frame: Any) -> None:
            confirm(frame)
            look()

        program.channel.confirm_delivery(confirmed)
        program.channel.queue_declare(name, durable=True, callback=declared)

    program = Program(broker, do)
    program.run()
    assert confirmed == set(range(1, MESSAGES + 1))
    assert bodies == [b"%d" % number for number in range(MESSAGES)]


def test_returns_come_before_their_confirms(broker: AmqpBroker, name: str) -> None:
    seen: list[tuple[str, object]] = []

    def confirm(frame: Any) -> None:
        seen.append(("ack", frame.method.delivery_tag))
        if frame.method.delivery_tag == 3:
            program.end()

    def do(program: Program) -> None:
        channel = program.channel
        channel.add_on_return_callback(lambda _, __, ___, body: seen.append(("return", body)))
        channel.confirm_delivery(confirm)
        for number in range(3):
            channel.basic_publish("", name, b"%d" % number, mandatory=True)

    program = Program(broker, do)
    program.run()
    assert [what for what in seen if what[0] == "return"] == [("return", b"0"), ("return", b"1"), ("return", b"2")]
    assert seen[0][0] == "return"
    assert seen[-1] == ("ack", 3)


def test_the_server_says_why_it_closes(broker: AmqpBroker) -> None:
    program = Program(broker, lambda program: program.channel.basic_qos(prefetch_size=9)).run()
    [reason] = program.closed
    assert isinstance(reason, pika.exceptions.ConnectionClosedByBroker)
    assert (reason.reply_code, reason.reply_text) == (540, "NOT_IMPLEMENTED - prefetch_size!=0 (9)")
