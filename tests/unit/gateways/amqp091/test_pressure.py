"""Disks that are low, and clients that take nothing."""

from __future__ import annotations

from dataclasses import replace

from tests.support.amqp_gateway import RunningAmqp, told

from penstock.codecs.amqp091 import methods as m

_LOW = 1 << 60


def _reserve(amqp: RunningAmqp, size: int) -> None:
    def change() -> None:
        amqp.broker.shard._engine._reserve = size

    amqp.call(change)


def test_a_low_disk_blocks_who_publishes_and_nobody_else(amqp: RunningAmqp) -> None:
    peer, beside = amqp.peer(1, 2), amqp.peer(1)
    peer.call(1, m.QueueDeclare(queue="q", durable=True))
    peer.call(1, m.ConfirmSelect())
    _reserve(amqp, _LOW)
    peer.send(1, m.BasicPublish(routing_key="q"), body=b"x")
    [(channel, blocked)] = told(peer, 1)
    assert (channel, blocked.name) == (0, "connection.blocked")
    assert [said.method.name for said in peer.call(2, m.ChannelFlow(True))] == ["channel.flow-ok"]
    assert [said.method.name for said in beside.call(1, m.ChannelFlow(True))] == ["channel.flow-ok"]
    _reserve(amqp, 0)
    assert {method.name for _, method in told(peer, 2)} == {"connection.unblocked", "basic.ack"}
    [got] = peer.call(1, m.BasicGet(queue="q"))
    assert got.body == b"x"


def test_who_takes_nothing_is_sent_no_more_than_the_limit(amqp: RunningAmqp) -> None:
    limit, size = 1 << 20, 64_000
    amqp.gateway.options = replace(amqp.gateway.options, max_outbound_bytes=limit)
    slow, publisher = amqp.peer(1), amqp.peer(1)
    slow.call(1, m.QueueDeclare(queue="q"))
    slow.call(1, m.BasicConsume(queue="q", no_ack=True, consumer_tag="c"))
    publisher.call(1, m.ConfirmSelect())
    for _ in range(400):
        publisher.send(1, m.BasicPublish(routing_key="q"), body=bytes(size))
    publisher.wait(lambda said: isinstance(said.method, m.BasicAck) and said.method.delivery_tag == 400)
    waiting = [amqp.call(lambda each=each: each.outbox.waiting_bytes) for each in amqp.connections]  # type: ignore[misc]
    assert max(waiting) < limit + 2 * 64 * size
    for number in range(400):
        [(_, delivered)] = told(slow, 1)
        assert isinstance(delivered, m.BasicDeliver)
        assert delivered.delivery_tag == number + 1
