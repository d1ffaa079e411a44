"""Messages that waited: those that expired meanwhile are gone, the others say how much time is left."""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import accumulate

from penstock.codecs.mqtt.decode import decode
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Publish
from penstock.gateways.mqtt.outbound.packets import Packets

_ANY_ID = 0xFFFF


def still_wanted(packets: Packets, version: Version, now_ms: int) -> Packets | None:
    """None if all of them expired [MQTT-3.3.2-5]."""
    if packets.expires is None:
        return packets
    kept = [place for place, time in enumerate(packets.expires) if not 0 < time <= now_ms]
    if not kept:
        return None
    made = [_again(packets, place, version, now_ms) for place in kept]
    data, ends = b"".join(made), array("i", accumulate(map(len, made)))
    heads = bytes([packets.heads[place] for place in kept])
    positions = array("i")
    for packet, end, head in zip(made, ends, heads, strict=True):
        if head & 6:
            positions.append(end - len(packet) + _id_position(packet))
    return Packets(data, ends, heads, positions, array("q", [packets.expires[place] for place in kept]), packets.share)


def _again(packets: Packets, place: int, version: Version, now_ms: int) -> bytes:
    assert packets.expires is not None
    start = packets.ends[place - 1] if place else 0
    data = bytearray(memoryview(packets.data)[start : packets.ends[place]])
    if not packets.expires[place] or version is Version.V3_1_1:
        return bytes(data)
    if packets.heads[place] & 6:
        at = _id_position(data)
        data[at : at + 2] = _ANY_ID.to_bytes(2, "big")
    packet = decode(data, version)
    assert isinstance(packet, Publish)
    left_s = (packets.expires[place] - now_ms + 999) // 1000
    return encode(replace(packet, properties=replace(packet.properties, message_expiry_interval_s=left_s)), version)


def _id_position(packet: bytes | bytearray) -> int:
    """Behind the fixed header and the topic."""
    at = 1
    while packet[at] & 0x80:
        at += 1
    return at + 3 + int.from_bytes(packet[at + 1 : at + 3], "big")
