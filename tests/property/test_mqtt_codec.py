"""Packets survive their bytes, however those are cut, and no bytes do worse than be refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.mqtt_packets import connects, packets, publish_answers, publishes

from penstock.codecs.mqtt.decode import Decoder, Need, decode
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.errors import PacketError
from penstock.codecs.mqtt.kinds import PacketType, Sender, Version
from penstock.codecs.mqtt.packets import Packet
from penstock.codecs.mqtt.state import Connection, State
from penstock.kernels import mqtt_columns
from penstock.kernels.mqtt_scan import Scanner

VERSIONS = st.sampled_from(Version)
both_versions = pytest.mark.parametrize("version", Version, ids=str)


def decoded(chunks: list[bytes], version: Version | None = None) -> list[Packet]:
    decoder, out = Decoder(version), list[Packet]()
    for chunk in chunks:
        decoder.receive(chunk)
        while not isinstance(packet := decoder.next_packet(), Need):
            out.append(packet)
    return out


@both_versions
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_packet_survives_its_bytes(version: Version, data: st.DataObject) -> None:
    packet = data.draw(packets(version))
    assert decode(encode(packet, version), version) == packet


@both_versions
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_connect_survives_its_bytes_and_brings_its_version(version: Version, data: st.DataObject) -> None:
    packet = data.draw(connects(version))
    assert decode(encode(packet, version), None) == packet


@both_versions
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_same_packets_however_the_bytes_are_split(version: Version, data: st.DataObject) -> None:
    sent = [data.draw(connects(version)), *data.draw(st.lists(packets(version), max_size=5))]
    stream = b"".join(encode(packet, version) for packet in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    chunks = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert decoded(chunks) == decoded([stream]) == sent


@both_versions
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_same_packets_byte_by_byte(version: Version, data: st.DataObject) -> None:
    sent = [data.draw(connects(version)), data.draw(packets(version))]
    stream = b"".join(encode(packet, version) for packet in sent)
    assert decoded([stream[i : i + 1] for i in range(len(stream))]) == sent


def _mutate(packet: bytes, rng: random.Random) -> bytes:
    """Changed in a few places, with a length that fits again: most of it must reach the inner rules."""
    body = bytearray(packet[2:] if packet[1] < 0x80 else packet[3:])
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(body) + 1)
        kind = rng.randrange(3)
        if kind == 0 and at < len(body):
            body[at] = rng.choice([0, 1, 2, 0x23, 0x26, 0x2B, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 1:
            body[at:at] = rng.randbytes(rng.randrange(1, 4))
        else:
            del body[at : at + rng.randrange(1, 4)]
    length = bytes([len(body)]) if len(body) < 128 else bytes([len(body) & 127 | 128, len(body) >> 7])
    first = packet[0] if rng.random() < 0.9 else rng.randrange(256)
    return bytes([first]) + length + body


@settings(max_examples=100, deadline=None)
@given(VERSIONS, st.data(), st.integers(0, 2**32))
def test_mutated_bytes_are_a_packet_or_refused(version: Version, data: st.DataObject, seed: int) -> None:
    """And what is a packet can be sent again, to the same effect."""
    packet = data.draw(packets(version) | connects(version))
    encoded = encode(packet, version)
    rng = random.Random(seed)
    for _ in range(10 if len(encoded) < 10_000 else 0):
        try:
            found = decode(_mutate(encoded, rng), version)
        except PacketError as fault:
            assert fault.reason.is_refusal and fault.version is version
            continue
        spoken = getattr(found, "version", version)
        assert decode(encode(found, spoken), spoken) == found


@settings(max_examples=100, deadline=None)
@given(st.none() | VERSIONS, st.binary(max_size=64))
def test_any_bytes_are_packets_or_refused(version: Version | None, data: bytes) -> None:
    try:
        decoded([data], version)
    except PacketError as fault:
        assert fault.reason.is_refusal


@settings(max_examples=100, deadline=None)
@given(VERSIONS, st.data(), st.integers(0, 2**32))
def test_the_kernel_takes_what_the_codec_takes(version: Version, data: st.DataObject, seed: int) -> None:
    """Of a packet with several faults they may name different ones."""
    encoded = encode(data.draw(publishes(version) | publish_answers(version)), version)
    rng, scanner = random.Random(seed), Scanner(16)
    tried = [encoded] + [_mutate(encoded, rng) for _ in range(10 if len(encoded) < 10_000 else 0)]
    for packet in [packet for packet in tried if PacketType.PUBLISH <= packet[0] >> 4 <= PacketType.PUBCOMP]:
        scanner.scan(packet, 0, len(packet), version, 1 << 28, 65_535, 2, True)
        assert bool(scanner.reason) == _is_refused(packet, version), packet.hex()
        assert (scanner.why == mqtt_columns.BAD_PACKET) == bool(scanner.reason)


def _is_refused(packet: bytes, version: Version) -> bool:
    connection = Connection(State.OPEN, version)
    try:
        connection.take(Sender.CLIENT, decode(packet, version))
    except PacketError:
        return True
    return False
