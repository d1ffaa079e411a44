from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.amqp091_wire import frame, publish

from penstock.codecs.amqp091.decode import (
    Decoder,
    Frame,
    Need,
    decode_header,
    decode_method,
    decode_properties,
    is_protocol_header,
    read_frame,
)
from penstock.codecs.amqp091.encode import HEARTBEAT, content_frames, method_frame, method_payload
from penstock.codecs.amqp091.errors import AmqpError, Fault, Reply, snippet
from penstock.codecs.amqp091.kinds import PROTOCOL_HEADER
from penstock.codecs.amqp091.methods import BY_NAME, METHODS, BasicPublish, QueueDeclare, QueueDeclareOk
from penstock.codecs.amqp091.properties import NO_PROPERTIES
from penstock.core.errors import InvalidArgument, TooLarge

STREAM = publish(b"body", key="a") + HEARTBEAT + method_frame(2, QueueDeclare(queue="q")) + publish(bytes(9000))


def frames(chunks: list[bytes]) -> list[Frame]:
    decoder, found = Decoder(4096), []
    for chunk in chunks:
        decoder.receive(chunk)
        while isinstance(one := decoder.next_frame(), Frame):
            found.append(one)
    return found


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=20))
@settings(max_examples=60, deadline=None)
def test_any_split_gives_the_same_frames(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(places)]
    assert frames(pieces) == frames([STREAM])
    assert sum(one.size for one in frames([STREAM])) == len(STREAM)


def test_after_an_error_there_are_no_more_frames() -> None:
    decoder = Decoder(4096)
    decoder.receive(HEARTBEAT + frame(4, 1, b"") + HEARTBEAT)
    assert decoder.next_frame() == Frame(8, 0, b"")  # type: ignore[arg-type]  # an int is as good
    for _ in range(2):
        with pytest.raises(AmqpError) as refused:
            decoder.next_frame()
        assert refused.value.fault.reply is Reply.FRAME_ERROR
        decoder.receive(HEARTBEAT)


def test_a_frame_that_is_too_large_is_refused_before_its_bytes_have_come() -> None:
    assert read_frame(b"\1\0\1" + (4096).to_bytes(4, "big") + b"\0", 0, 8, 4096) is Need.DATA
    with pytest.raises(AmqpError, match=r"FRAME_ERROR - type 1, all octets = <<>>: \{frame_too_large,4097,4088\}"):
        read_frame(b"\1\0\1" + (4097).to_bytes(4, "big") + b"\0", 0, 8, 4096)


def test_the_protocol_header_is_taken_by_its_first_bytes() -> None:
    for size in range(8):
        assert is_protocol_header(PROTOCOL_HEADER[:size]) is Need.DATA
    assert is_protocol_header(PROTOCOL_HEADER + b"more") is True
    for wrong in (b"AMQP\x00\x01\x00\x00", b"GET / HTTP", b"AMQP\x01", b"X"):
        assert is_protocol_header(wrong) is False


def test_the_table_has_every_method_once_and_replies_that_there_are() -> None:
    assert len(METHODS) == 66
    assert len(BY_NAME) == 66
    for method in METHODS.values():
        assert all(BY_NAME[reply].class_id == method.class_id for reply in method.replies)
    assert {method.name for method in METHODS.values() if method.has_content} == {
        "basic.publish",
        "basic.return",
        "basic.deliver",
        "basic.get-ok",
    }


@pytest.mark.parametrize(
    ("payload", "reply"),
    [
        (b"\0\x3c\0", Reply.FRAME_ERROR),
        (b"\0\x3c\0\x0d", Reply.COMMAND_INVALID),
        (b"\0\x63\0\x0a", Reply.COMMAND_INVALID),
        (method_payload(QueueDeclareOk("q", 1, 2))[:-1], Reply.FRAME_ERROR),
        (method_payload(QueueDeclareOk("q", 1, 2)) + b"\0", Reply.FRAME_ERROR),
        (method_payload(QueueDeclareOk("q", 1, 2)).replace(b"q", b"\xff"), Reply.FRAME_ERROR),
    ],
)
def test_payloads_that_are_no_method_are_refused_with_class_and_method(payload: bytes, reply: Reply) -> None:
    with pytest.raises(AmqpError) as refused:
        decode_method(payload, 5)
    error = refused.value
    assert (error.fault.reply, error.channel) == (reply, 5)
    if len(payload) >= 4 and error.fault is not Fault.BAD_TEXT:
        assert (error.class_id, error.method_id) == (payload[1], payload[3])


def test_bytes_are_shown_as_text_where_all_of_them_are() -> None:
    assert snippet(b'a "q"\n') == 'all octets = <<"a \\"q\\"\\n">>'
    assert snippet(b"ab\0") == "all octets = <<97,98,0>>"
    assert snippet(b"x" * 17) == f'first 16 octets = <<"{"x" * 16}">>'
    assert snippet(b"") == "all octets = <<>>"


def test_headers_and_properties_that_are_none_are_refused() -> None:
    for payload in (bytes(11), b"\0\x3c\0\1" + bytes(8)):
        with pytest.raises(AmqpError):
            decode_header(payload)
    for properties in (b"", b"\0\1", b"\0\2", b"\x80\0", b"\0\0\0"):
        with pytest.raises(AmqpError) as refused:
            decode_properties(properties, 3, (60, 40))
        assert (refused.value.fault.reply, refused.value.method_id) == (Reply.SYNTAX_ERROR, 40)
    # What is no UTF-8 passes: properties are stored as they came.
    assert decode_properties(b"\x80\0\1\xff").content_type == "\udcff"


def test_what_the_receiver_does_not_take_is_not_sent() -> None:
    with pytest.raises(TooLarge):
        method_frame(1, QueueDeclare(queue="q" * 256))
    with pytest.raises(TooLarge):
        method_frame(1, QueueDeclareOk("q" * 200), 100)
    with pytest.raises(InvalidArgument):
        content_frames(1, QueueDeclare(), NO_PROPERTIES, b"", 4096)
    with pytest.raises(InvalidArgument):
        content_frames(1, BasicPublish(), NO_PROPERTIES, b"", 4095)
    with pytest.raises(InvalidArgument):
        method_frame(65536, QueueDeclare())
