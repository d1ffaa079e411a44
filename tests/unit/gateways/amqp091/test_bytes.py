"""Bytes as they come: cut anywhere, they mean the same; what means nothing ends its own connection."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.amqp_gateway import RunningAmqp

from penstock.codecs.amqp091 import methods as m
from penstock.codecs.amqp091.encode import content_frames, method_frame
from penstock.codecs.amqp091.kinds import PROTOCOL_HEADER

_LIVE = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_SAID = b"".join(
    [
        method_frame(1, m.ChannelOpen()),
        method_frame(1, m.QueueDeclare(queue="q", exclusive=True)),
        content_frames(1, m.BasicPublish(routing_key="q"), b"\0\0", b"one", 4096),
        content_frames(1, m.BasicPublish(routing_key="q"), b"\x80\0\x01t", bytes(9000), 4096),
        content_frames(1, m.BasicPublish(routing_key="none", mandatory=True), b"\0\0", b"back", 4096),
        method_frame(1, m.QueueDeclare(queue="q", passive=True)),
        method_frame(1, m.BasicGet(queue="q")),
        method_frame(1, m.BasicGet(queue="q")),
        method_frame(1, m.BasicAck(2, True)),
        method_frame(1, m.BasicGet(queue="q")),
        method_frame(1, m.QueueDelete(queue="q")),
        method_frame(0, m.ConnectionClose(200, "bye")),
    ]
)


def _answers(amqp: RunningAmqp, cuts: list[int]) -> list[tuple[m.Method, bytes]]:
    peer, at = amqp.peer(), 0
    for cut in [*cuts, len(_SAID)]:
        peer.raw(_SAID[at:cut])
        at = cut
    came = peer.wait(lambda said: said.method.name == "connection.close-ok")
    peer.close()
    return [(said.method, said.body) for said in came]


@_LIVE
@given(cuts=st.lists(st.integers(1, len(_SAID) - 1), max_size=40, unique=True).map(sorted))
def test_any_split_of_the_bytes_gives_the_same_answers(amqp: RunningAmqp, cuts: list[int]) -> None:
    whole = _answers(amqp, [])
    assert [method.name for method, _ in whole[:3]] == ["channel.open-ok", "queue.declare-ok", "basic.return"]
    assert _answers(amqp, cuts) == whole


@_LIVE
@given(data=st.binary(max_size=60), how_far=st.sampled_from(["dialled", "greeted", "open"]))
def test_bytes_that_mean_nothing_end_only_their_own_connection(amqp: RunningAmqp, data: bytes, how_far: str) -> None:
    beside = amqp.peer(1)
    peer = amqp.peer(1) if how_far == "open" else amqp.dialled()
    if how_far == "greeted":
        peer.raw(PROTOCOL_HEADER)
    peer.raw(data + b"\xff" * 40)
    list(peer.coming(0.01))
    assert [said.method.name for said in beside.call(1, m.ChannelFlow(True))] == ["channel.flow-ok"]
    for each in (peer, beside):
        each.close()
