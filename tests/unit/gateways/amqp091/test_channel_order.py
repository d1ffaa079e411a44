"""What has an order is a channel: one that waits holds up nobody else, and goes on where it was."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.support.amqp_gateway import RunningAmqp, told

from penstock.codecs.amqp091 import methods as m
from penstock.codecs.amqp091.encode import body_frames, header_frame, method_frame

_QUEUE = m.QueueDeclare(queue="q")


def _hold(amqp: RunningAmqp, channel: int) -> asyncio.Event:
    """The channel of the only connection waits until this is set."""

    def hold() -> asyncio.Event:
        [connection] = amqp.connections
        over = asyncio.Event()

        async def work() -> None:
            await over.wait()

        amqp.gateway.turns.wait(connection, connection.channels[channel], work())
        return over

    return amqp.call(hold)


def test_others_go_on_while_a_channel_waits_and_it_does_all_in_order_when_it_is_done(amqp: RunningAmqp) -> None:
    peer = amqp.peer(1, 2)
    over = _hold(amqp, 1)
    peer.send(1, _QUEUE)
    peer.send(1, m.BasicPublish(routing_key="q"), body=b"x")
    peer.send(1, m.BasicGet(queue="q"))
    peer.send(1, m.ChannelFlow(True))
    assert [said.method.name for said in peer.call(2, m.ChannelFlow(True))] == ["channel.flow-ok"]
    amqp.call(over.set)
    assert [method.name for _, method in told(peer, 3)] == ["queue.declare-ok", "basic.get-ok", "channel.flow-ok"]


def test_more_than_a_channel_may_leave_lying_stops_the_reading_until_it_is_done(amqp: RunningAmqp) -> None:
    amqp.gateway.options = replace(amqp.gateway.options, max_backlog_bytes=10_000)
    peer = amqp.peer(1, 2)
    over = _hold(amqp, 1)
    for _ in range(30):
        peer.send(1, m.BasicPublish(routing_key="q"), body=bytes(1000))
    peer.send(1, m.ChannelFlow(True))
    amqp.until(lambda: amqp.connections[0].parked == 1)
    assert amqp.call(lambda: len(amqp.connections[0].channels[1].backlog)) < 50_000
    amqp.call(over.set)
    assert [method.name for _, method in told(peer, 1)] == ["channel.flow-ok"]
    assert amqp.call(lambda: amqp.connections[0].parked) == 0
    assert [said.method.name for said in peer.call(2, m.ChannelFlow(True))] == ["channel.flow-ok"]


def test_what_waits_on_a_channel_that_closes_is_forgotten(amqp: RunningAmqp) -> None:
    peer = amqp.peer(1, 2)
    _hold(amqp, 1)
    peer.send(1, _QUEUE)
    peer.call(2, m.ChannelFlow(True))
    amqp.call(lambda: amqp.connections[0].drop_channel(1))
    [said] = peer.call(2, m.QueueDeclare(queue="q", passive=True))
    assert said.method.name == "channel.close"


def test_a_mistake_on_a_channel_does_nothing_of_another_twice(amqp: RunningAmqp) -> None:
    peer = amqp.peer(1, 2)
    peer.call(2, _QUEUE)
    wrong = method_frame(1, m.QueueDeclare(queue="none", passive=True))
    asked = method_frame(2, m.QueueDeclare(queue="q", passive=True))
    with amqp.held():
        peer.raw(asked + wrong + asked)
    peer.send(2, m.ChannelFlow(True))
    names = [(channel, method.name) for channel, method in told(peer, 4)]
    assert sorted(names[:3]) == [(1, "channel.close"), (2, "queue.declare-ok"), (2, "queue.declare-ok")]
    assert names[3] == (2, "channel.flow-ok")


def test_a_message_that_is_too_large_ends_its_channel_and_the_rest_of_it_is_passed_over(amqp: RunningAmqp) -> None:
    amqp.gateway.options = replace(amqp.gateway.options, max_message_bytes=100_000)
    peer = amqp.peer(1, 2)
    publish = method_frame(1, m.BasicPublish(routing_key="q")) + header_frame(1, 300_000, b"\0\0")
    peer.raw(publish + body_frames(1, bytes(300_000), 131_072))
    [(channel, close)] = told(peer, 1)
    assert (channel, close.name) == (1, "channel.close")
    assert [said.method.name for said in peer.call(2, m.ChannelFlow(True))] == ["channel.flow-ok"]
    peer.open(1)
