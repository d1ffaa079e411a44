"""Answers and deliveries in three protocols: the same however the stream is cut, and refusals are not counted."""

from __future__ import annotations

import socket
import struct
from array import array
from collections.abc import Callable, Iterator

import pytest
from bench.mqtt.amqp_speech import AmqpAcks, AmqpDeliveries, queue
from bench.mqtt.link import Link, PeerFailed
from bench.mqtt.mqtt_speech import MqttAcks, MqttDeliveries
from bench.mqtt.nats_speech import JetStreamAcks, JetStreamDeliveries
from bench.mqtt.ring import payload
from bench.mqtt.speech import Acks, Deliveries

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Disconnect, PubAck, Publish
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.kernels.mqtt_encode import encode_acks


@pytest.fixture
def link() -> Iterator[Link]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = Link(server.getsockname(), "test")
        yield link
        link.close()


def _pubacks(count: int) -> bytes:
    return bytes(encode_acks(4, array("i", range(1, count + 1)), None, 5))


def _stored(count: int) -> bytes:
    answers = [b'{"stream":"BENCH","seq":%d}' % number for number in range(1, count + 1)]
    return b"".join(b"MSG _INBOX.p0 1 %d\r\n%b\r\n" % (len(answer), answer) for answer in answers)


def _confirm(tag: int, is_multiple: bool = False) -> bytes:
    return struct.pack(">BHIHHQ?c", 1, 1, 13, 60, 80, tag, is_multiple, b"\xce")


def _counted(acks: Acks, stream: bytes, cut: int) -> int:
    """With all that was not read kept for the next time."""
    total, data = 0, bytearray()
    for part in (stream[:cut], stream[cut:]):
        data += part
        messages, read_bytes = acks.read(data, len(data))
        total += messages
        del data[:read_bytes]
    assert not data
    return total


def test_pubacks_are_counted_wherever_the_stream_is_cut() -> None:
    stream = _pubacks(5)
    assert {_counted(MqttAcks(10), stream, cut) for cut in range(len(stream))} == {5}


def test_answers_of_a_stream_are_counted_wherever_it_is_cut(link: Link) -> None:
    stream = _stored(5)
    assert {_counted(JetStreamAcks(link), stream, cut) for cut in range(len(stream))} == {5}


def test_confirms_are_counted_wherever_the_stream_is_cut() -> None:
    stream = _confirm(1) + _confirm(3) + _confirm(4, is_multiple=True) + _confirm(6) + _confirm(5)
    assert {_counted(AmqpAcks(), stream, cut) for cut in range(len(stream))} == {6}


def test_pubacks_out_of_order_fail() -> None:
    data = bytearray(encode_acks(4, array("i", [1, 3, 2]), None, 5))
    with pytest.raises(PeerFailed, match="out of order"):
        MqttAcks(10).read(data, len(data))


def test_packet_ids_begin_again_behind_the_last() -> None:
    acks, data = MqttAcks(4), bytearray(_pubacks(4))
    assert [acks.read(data, len(data)).messages for _ in range(3)] == [4, 4, 4]


def test_a_refused_publish_fails() -> None:
    data = bytearray(encode(PubAck(1, ReasonCode.QUOTA_EXCEEDED), Version.V5))
    with pytest.raises(PeerFailed, match="QUOTA_EXCEEDED"):
        MqttAcks(10).read(data, len(data))


def test_a_publish_that_nobody_takes_is_acknowledged() -> None:
    data = bytearray(encode(PubAck(1, ReasonCode.NO_MATCHING_SUBSCRIBERS), Version.V5))
    assert MqttAcks(10).read(data, len(data)).messages == 1


def test_a_disconnect_of_the_server_fails() -> None:
    data = bytearray(encode(Disconnect(ReasonCode.QUOTA_EXCEEDED), Version.V5))
    with pytest.raises(PeerFailed, match="QUOTA_EXCEEDED"):
        MqttDeliveries(1).read(data, len(data))


def test_an_error_of_a_stream_fails(link: Link) -> None:
    answer = b'{"error":{"code":503}}'
    data = bytearray(b"MSG _INBOX.p0 1 %d\r\n%b\r\n" % (len(answer), answer))
    with pytest.raises(PeerFailed, match="503"):
        JetStreamAcks(link).read(data, len(data))


def test_a_negative_confirm_fails() -> None:
    data = bytearray(struct.pack(">BHIHHQ?c", 1, 1, 13, 60, 120, 1, False, b"\xce"))
    with pytest.raises(PeerFailed, match="refused"):
        AmqpAcks().read(data, len(data))


def _mqtt_stream() -> bytes:
    """With properties of different lengths, as a queue's deliveries have them."""
    return b"".join(
        encode(
            Publish(
                "bench/t0",
                payload(place),
                1,
                packet_id=place + 1,
                properties=Properties(user_properties=(("offset", "9" * place),)),
            ),
            Version.V5,
        )
        for place in range(4)
    )


def _jetstream_stream() -> bytes:
    return b"".join(
        b"MSG bench.0 1 $JS.ACK.BENCH.bench.1.%d.1.9.0 256\r\n%b\r\n" % (10**place, payload(place))
        for place in range(4)
    )


def _amqp_stream() -> bytes:
    name, out = queue(0), b""
    for place in range(4):
        body = struct.pack(">HH", 60, 60) + b"\x01c" + (place + 1).to_bytes(8, "big") + b"\x00\x00"
        body += bytes((len(name),)) + name
        header = struct.pack(">HHQHB", 60, 0, 256, 0x1000, 2)
        for kind, part in ((1, body), (2, header), (3, payload(place))):
            out += struct.pack(">BHI", kind, 1, len(part)) + part + b"\xce"
    return out


@pytest.mark.parametrize(
    ("stream", "reader"),
    [
        (_mqtt_stream(), lambda link: MqttDeliveries(1)),
        (_jetstream_stream(), JetStreamDeliveries),
        (_amqp_stream(), lambda link: AmqpDeliveries(queue(0), 10)),
    ],
    ids=["mqtt", "jetstream", "amqp"],
)
def test_payloads_are_found_wherever_the_stream_is_cut(
    link: Link, stream: bytes, reader: Callable[[Link], Deliveries]
) -> None:
    for cut in range(0, len(stream), 7):
        deliveries, found, data = reader(link), [], bytearray()
        for part in (stream[:cut], stream[cut:]):
            data += part
            payloads_at, read_bytes, _ = deliveries.read(data, len(data))
            found += [bytes(data[at : at + 256]) for at in payloads_at]
            del data[:read_bytes]
        assert found == [payload(place) for place in range(4)]


def test_deliveries_with_qos_1_are_answered_with_their_packet_ids() -> None:
    data = bytearray(_mqtt_stream())
    assert MqttDeliveries(1).read(data, len(data)).answer == _pubacks(4)


def test_deliveries_of_jetstream_are_answered_at_their_reply_subjects(link: Link) -> None:
    data = bytearray(_jetstream_stream())
    answer = JetStreamDeliveries(link).read(data, len(data)).answer
    assert bytes(answer).split(b"\r\n")[::2][:2] == [
        b"PUB $JS.ACK.BENCH.bench.1.1.1.9.0 0",
        b"PUB $JS.ACK.BENCH.bench.1.10.1.9.0 0",
    ]


def test_the_last_delivery_of_amqp_settles_all_before_it() -> None:
    data = bytearray(_amqp_stream())
    assert AmqpDeliveries(queue(0), 10).read(data, len(data)).answer == _confirm(4, is_multiple=True)
