from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.amqp091_wire import frame, header, publish

from penstock.codecs.amqp091.assembly import Assembly, Received
from penstock.codecs.amqp091.decode import Decoder, Frame
from penstock.codecs.amqp091.encode import method_frame
from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.codecs.amqp091.methods import BasicPublish, ChannelOpen, TxSelect

METHOD = method_frame(1, BasicPublish(routing_key="k"))


def frames(data: bytes) -> list[Frame]:
    decoder, found = Decoder(1 << 17), []
    decoder.receive(data)
    while isinstance(one := decoder.next_frame(), Frame):
        found.append(one)
    return found


def taken(assembly: Assembly, data: bytes) -> list[Received]:
    return [received for one in frames(data) if (received := assembly.take(one)) is not None]


@given(some=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9000)), max_size=6), seed=st.integers(0, 1 << 20))
@settings(max_examples=80, deadline=None)
def test_frames_of_channels_may_come_in_any_mixture(some: list[tuple[int, int]], seed: int) -> None:
    rng, queues = random.Random(seed), {1: list[Frame](), 2: list[Frame](), 3: list[Frame]()}
    for number, (channel, size) in enumerate(some):
        queues[channel] += frames(publish(bytes([number]) * size, channel=channel))
    assembly, found = Assembly(10_000, 100_000), list[Received]()
    while waiting := [channel for channel in queues if queues[channel]]:
        received = assembly.take(queues[rng.choice(waiting)].pop(0))
        if received is not None:
            found.append(received)
    assert (assembly.unfinished_bytes, assembly.assembling) == (0, 0)
    for channel in queues:
        mine = [bytes([number]) * size for number, (where, size) in enumerate(some) if where == channel]
        assert [bytes(one.content.body) for one in found if one.channel == channel and one.content] == mine


def test_methods_without_a_content_are_whole_at_once() -> None:
    found = taken(Assembly(10, 10), method_frame(4, ChannelOpen()) + method_frame(4, TxSelect()))
    assert found == [Received(4, ChannelOpen()), Received(4, TxSelect())]


def test_who_is_in_the_middle_of_a_content_is_told_to_the_scanner() -> None:
    assembly = Assembly(100, 100)
    for data, assembling in (
        (METHOD, 1),
        (method_frame(2, BasicPublish()), -1),
        (header(0, channel=2), 1),
        (header(3), 1),
        (frame(3, 1, b"ab"), 1),
        (frame(3, 1, b""), 1),
        (frame(3, 1, b"c"), 0),
    ):
        taken(assembly, data)
        assert assembly.assembling == assembling


def refused(assembly: Assembly, data: bytes) -> AmqpError:
    with pytest.raises(AmqpError) as error:
        taken(assembly, data)
    return error.value


def test_what_is_announced_is_refused_before_a_byte_of_it_has_come() -> None:
    assembly = Assembly(1000, 1500)
    error = refused(assembly, METHOD + header(1001))
    assert (error.fault, error.is_hard, error.channel) == (Fault.TOO_LARGE, False, 1)
    assert error.reply_text == "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
    assert refused(assembly, METHOD + header(2**64 - 1)).fault is Fault.TOO_LARGE
    assert (assembly.unfinished_bytes, assembly.assembling) == (0, 0)


def test_channels_of_a_connection_share_what_may_be_unfinished() -> None:
    assembly = Assembly(1000, 1500)
    second = method_frame(2, BasicPublish()) + header(501, channel=2)
    taken(assembly, METHOD + header(1000))
    error = refused(assembly, second)
    assert (error.fault, error.is_hard, assembly.unfinished_bytes) == (Fault.TOO_MUCH_UNFINISHED, True, 1000)
    assembly.drop(1)
    assert (assembly.unfinished_bytes, assembly.assembling) == (0, 0)
    taken(assembly, second)
    assembly.drop(1)
    assert assembly.unfinished_bytes == 501


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (header(0), Fault.EXPECTED_METHOD),
        (frame(3, 1, b"x"), Fault.EXPECTED_METHOD),
        (METHOD + METHOD, Fault.EXPECTED_HEADER),
        (METHOD + frame(3, 1, b"x"), Fault.EXPECTED_HEADER),
        (METHOD + header(0, weight=1), Fault.EXPECTED_HEADER),
        (METHOD + header(0, class_id=50), Fault.OTHER_CLASS),
        (METHOD + header(1) + header(1), Fault.EXPECTED_BODY),
        (METHOD + header(1) + METHOD, Fault.EXPECTED_BODY),
        (METHOD + header(2) + frame(3, 1, b"a") + frame(3, 1, b"bc"), Fault.BODY_TOO_LONG),
        (METHOD + header(0, b"\x80\0"), Fault.SYNTAX),
        (frame(1, 1, b"\0\x3c\0\x28\0"), Fault.BAD_PAYLOAD),
    ],
)
def test_frames_that_must_not_come_now_are_refused_and_nothing_is_kept(data: bytes, fault: Fault) -> None:
    assembly = Assembly(1000, 1000)
    assert refused(assembly, data).fault is fault
    assert (assembly.unfinished_bytes, assembly.assembling) == (0, 0)
