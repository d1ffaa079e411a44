"""Quorum queues and streams: what their consumers see."""

from __future__ import annotations

import pytest
from tests.differential.amqp091.peer import Peer, Said
from tests.support.amqp_gateway import RunningAmqp

from penstock.codecs.amqp091 import methods as m
from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.properties import Properties, properties_bytes, read_properties
from penstock.codecs.amqp091.wire import table_of


def _made(amqp: RunningAmqp, kind: str) -> Peer:
    peer = amqp.peer(1)
    peer.call(1, m.QueueDeclare(queue="q", durable=True, arguments=table_of({"x-queue-type": kind})))
    return peer


def _headers(said: Said) -> dict[str, Field]:
    return dict(read_properties(said.properties).headers or {})


def _filled(amqp: RunningAmqp, count: int) -> Peer:
    peer = _made(amqp, "stream")
    peer.call(1, m.ConfirmSelect())
    for number in range(count):
        peer.send(1, m.BasicPublish(routing_key="q"), b"\0\0", b"%d" % number)
        peer.wait(lambda said: isinstance(said.method, m.BasicAck))
    peer.call(1, m.BasicQos(prefetch_count=100))
    return peer


def _read(peer: Peer, tag: str, offset: object, count: int) -> list[tuple[bytes, Field]]:
    arguments = table_of({} if offset is None else {"x-stream-offset": offset})
    peer.call(1, m.BasicConsume(queue="q", consumer_tag=tag, arguments=arguments))
    found: list[Said] = []
    for _ in range(count):
        found += peer.wait(lambda said: isinstance(said.method, m.BasicDeliver))
    return [(said.body, _headers(said)["x-stream-offset"]) for said in found]


def test_a_quorum_queue_says_how_often_a_message_was_delivered_before(amqp: RunningAmqp) -> None:
    peer = _made(amqp, "quorum")
    carried = Properties(content_type="t", headers={"h": Field("I", 1)}, message_id="5")
    peer.send(1, m.BasicPublish(routing_key="q"), properties_bytes(carried), b"x")
    for count in range(3):
        [got] = peer.call(1, m.BasicGet(queue="q"))
        assert isinstance(got.method, m.BasicGetOk)
        assert _headers(got) == {"h": Field("I", 1), "x-delivery-count": Field("l", count)}
        assert read_properties(got.properties).message_id == "5"
        peer.send(1, m.BasicNack(got.method.delivery_tag, requeue=True))


@pytest.mark.parametrize(
    ("offset", "first"), [("first", 0), (2, 2), ("last", 3), (Field("T", 0), 0), ("1h", 0)], ids=repr
)
def test_a_stream_is_read_from_where_it_is_asked_for(amqp: RunningAmqp, offset: object, first: int) -> None:
    peer = _filled(amqp, 4)
    assert _read(peer, "c", offset, 4 - first) == [(b"%d" % at, Field("l", at)) for at in range(first, 4)]


def test_readers_of_a_stream_take_nothing_from_each_other(amqp: RunningAmqp) -> None:
    peer = _filled(amqp, 3)
    everything = [(b"%d" % at, Field("l", at)) for at in range(3)]
    assert _read(peer, "a", "first", 3) == everything
    peer.send(1, m.BasicNack(3, multiple=True, requeue=False))
    assert _read(peer, "b", "first", 3) == everything
    peer.send(1, m.BasicNack(6, multiple=True, requeue=True))
    assert _read(peer, "c", "next", 0) == []
    peer.send(1, m.BasicPublish(routing_key="q"), b"\0\0", b"3")
    came = [peer.wait(lambda said: isinstance(said.method, m.BasicDeliver))[-1] for _ in range(3)]
    assert {said.body for said in came} == {b"3"}
    peer.call(1, m.ChannelClose())
    amqp.until(lambda: not amqp.gateway.background.is_busy)
    assert [str(key) for key in amqp.broker.queue("q").groups] == ["default"]


def test_a_reader_is_bound_by_its_prefetch(amqp: RunningAmqp) -> None:
    peer = _filled(amqp, 4)
    peer.call(1, m.BasicQos(prefetch_count=2))
    assert len(_read(peer, "c", "first", 2)) == 2
    assert list(peer.coming(0)) == []
    peer.send(1, m.BasicAck(1))
    [said] = peer.wait(lambda said: isinstance(said.method, m.BasicDeliver))
    assert said.body == b"2"
