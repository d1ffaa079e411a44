"""Bytes to packets, one at a time. The kernel `mqtt_scan` does PUBLISH and its acknowledgements in bulk, by the same
rules. A length that a peer sent is held against the bytes there are, or against a limit, before anything is taken."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.codecs.mqtt.connect import read_connack, read_connect
from penstock.codecs.mqtt.errors import MalformedPacket, PacketError, ProtocolError
from penstock.codecs.mqtt.kinds import MAX_PACKET_BYTES, PacketType, Version
from penstock.codecs.mqtt.packets import (
    Auth,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    RetainHandling,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
)
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties, read_properties
from penstock.codecs.mqtt.reasons import REASONS, SUBACK_3_1_1, ReasonCode
from penstock.codecs.mqtt.text import SHARE_PREFIX, check_received_filter, check_received_topic
from penstock.codecs.mqtt.wire import Reader
from penstock.core.ports import Buffer

_Decoder = Callable[[Reader, int, Version], Packet]
_MAX_HEADER_BYTES = 5
# PUBLISH has flags of its own.
_FIXED_FLAGS = {PacketType.PUBREL: 2, PacketType.SUBSCRIBE: 2, PacketType.UNSUBSCRIBE: 2}


class Need(enum.Enum):
    DATA = enum.auto()


class Header(NamedTuple):
    type: PacketType
    flags: int
    body_at: int
    packet_bytes: int
    is_overlong: bool
    """the length takes more bytes than it needs, which 3.1.1 does not forbid"""


class Decoder:
    """Feed bytes, ask for packets until it needs more: any split of the input gives the same packets. The version is
    that of the CONNECT that passes through; whoever sends the CONNECT says it here. Ask after each `receive`: then no
    more is kept than `max_packet_bytes` and what was received last. A packet that is too long is refused by its header.
    After an error there are no more packets: each call raises it again."""

    def __init__(self, version: Version | None = None, max_packet_bytes: int = MAX_PACKET_BYTES) -> None:
        self.version = version
        self.max_packet_bytes = max_packet_bytes
        self._buffer = bytearray()
        self._failed: PacketError | None = None

    def receive(self, data: Buffer) -> None:
        if self._failed is None:
            self._buffer += data

    def next_packet(self) -> Packet | Need:
        if self._failed is not None:
            raise self._failed
        try:
            return self._next()
        except PacketError as fault:
            self._failed = fault
            self._buffer.clear()
            raise

    def _next(self) -> Packet | Need:
        header = read_header(self._buffer, self.version)
        if header is not None and header.packet_bytes > self.max_packet_bytes:
            raise ProtocolError(
                f"a packet of {header.packet_bytes} bytes, and the limit is {self.max_packet_bytes}",
                ReasonCode.PACKET_TOO_LARGE,
                self.version,
            )
        if header is None or header.packet_bytes > len(self._buffer):
            return Need.DATA
        packet = decode(self._buffer[: header.packet_bytes], self.version)
        del self._buffer[: header.packet_bytes]
        if isinstance(packet, Connect):
            self.version = packet.version
        return packet


def decode(data: Buffer, version: Version | None) -> Packet:
    """The packet that exactly these bytes are. Without a version it must be a CONNECT, which brings its own.
    An error has the version in which the peer is to be told."""
    header = read_header(data, version)
    if header is None or header.packet_bytes != len(data):
        raise MalformedPacket(f"{len(data)} bytes are not one whole packet", version=version)
    reader = Reader(bytes(data), header.body_at, len(data))
    try:
        if version is None or header.type is PacketType.CONNECT:
            return read_connect(reader, header.is_overlong)
        packet = _DECODERS[header.type](reader, header.flags, version)
        reader.finish()
    except PacketError as fault:
        fault.version = version or fault.version
        raise
    return packet


def read_header(data: Buffer, version: Version | None) -> Header | None:
    """Of the packet at the start of the data; None if its header is not there whole. Refuses what the first bytes give
    away already, so that nobody waits for the rest."""
    if not data:
        return None
    try:
        type = _packet_type(data[0], version)
        value = 0
        for i, byte in enumerate(bytes(data[1:_MAX_HEADER_BYTES])):
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                header = Header(type, data[0] & 15, i + 2, i + 2 + value, i > 0 and not byte)
                _check_minimal(header, version)
                return header
        if len(data) >= _MAX_HEADER_BYTES:
            raise MalformedPacket("the length of the packet takes more than 4 bytes")
    except PacketError as fault:
        fault.version = version
        raise
    return None


def _packet_type(first: int, version: Version | None) -> PacketType:
    if not first >> 4 or (first >> 4 == PacketType.AUTH and version is Version.V3_1_1):
        raise MalformedPacket(f"there is no packet of type {first >> 4}")
    type, flags = PacketType(first >> 4), first & 15
    if version is None and type is not PacketType.CONNECT:
        raise ProtocolError(f"the first packet is {type.name}, and must be CONNECT")
    if type is PacketType.PUBLISH:
        if flags & 6 == 6 or flags & 14 == 8:
            raise MalformedPacket("a PUBLISH has QoS 3, or is a duplicate in QoS 0")
    elif flags != _FIXED_FLAGS.get(type, 0):
        raise MalformedPacket(f"{type.name} has flags {flags:04b}")
    return type


def _check_minimal(header: Header, version: Version | None) -> None:
    if header.is_overlong and version is Version.V5:
        raise MalformedPacket("the length of the packet takes more bytes than it needs")


def _publish(reader: Reader, flags: int, version: Version) -> Publish:
    qos = flags >> 1 & 3
    topic = reader.text("the topic name")
    if topic:
        check_received_topic(topic)
    packet_id = _packet_id(reader) if qos else 0
    properties = _properties(reader, PacketType.PUBLISH, version)
    if not topic and version is Version.V3_1_1:
        raise MalformedPacket("the topic name is empty")
    if not topic and properties.topic_alias is None:
        raise ProtocolError("a PUBLISH has neither a topic name nor a topic alias")
    return Publish(topic, reader.rest(), qos, bool(flags & 1), bool(flags & 8), packet_id, properties)


def _packet_id(reader: Reader) -> int:
    packet_id = reader.unsigned(2, "the packet identifier")
    if not packet_id:
        raise ProtocolError("the packet identifier is 0")
    return packet_id


def _properties(reader: Reader, type: PacketType, version: Version) -> Properties:
    return read_properties(reader, type) if version is Version.V5 else NO_PROPERTIES


def _reason(reader: Reader, type: PacketType) -> ReasonCode:
    code = reader.unsigned(1, "the reason code")
    if code not in REASONS[type]:
        raise ProtocolError(f"{type.name} has the reason code 0x{code:02X}")
    return ReasonCode(code)


def _reason_and_properties(reader: Reader, type: PacketType, version: Version) -> tuple[ReasonCode, Properties]:
    """Both may be left out at the end of a packet, the reason then being success."""
    if version is Version.V3_1_1 or not reader.remaining_bytes:
        return ReasonCode.SUCCESS, NO_PROPERTIES
    reason = _reason(reader, type)
    return reason, read_properties(reader, type) if reader.remaining_bytes else NO_PROPERTIES


def _puback(reader: Reader, _flags: int, version: Version) -> PubAck:
    return PubAck(_packet_id(reader), *_reason_and_properties(reader, PacketType.PUBACK, version))


def _pubrec(reader: Reader, _flags: int, version: Version) -> PubRec:
    return PubRec(_packet_id(reader), *_reason_and_properties(reader, PacketType.PUBREC, version))


def _pubrel(reader: Reader, _flags: int, version: Version) -> PubRel:
    return PubRel(_packet_id(reader), *_reason_and_properties(reader, PacketType.PUBREL, version))


def _pubcomp(reader: Reader, _flags: int, version: Version) -> PubComp:
    return PubComp(_packet_id(reader), *_reason_and_properties(reader, PacketType.PUBCOMP, version))


def _subscribe(reader: Reader, _flags: int, version: Version) -> Subscribe:
    packet_id = _packet_id(reader)
    properties = _properties(reader, PacketType.SUBSCRIBE, version)
    subscriptions = []
    while reader.remaining_bytes:
        subscriptions.append(_subscription(reader, version))
    if not subscriptions:
        raise ProtocolError("SUBSCRIBE names no topic filter")
    return Subscribe(packet_id, tuple(subscriptions), properties)


def _subscription(reader: Reader, version: Version) -> Subscription:
    filter = _filter(reader)
    options = reader.unsigned(1, "the subscription options")
    if options & 3 == 3 or options & (0xC0 if version is Version.V5 else 0xFC):
        raise MalformedPacket(f"there are no subscription options {options:08b}")
    if options >> 4 == 3:
        raise ProtocolError("there is no retain handling 3")
    no_local = bool(options & 4)
    if no_local and filter.startswith(SHARE_PREFIX):
        raise ProtocolError(f"a shared subscription cannot be no-local: {filter!r}")
    return Subscription(filter, options & 3, no_local, bool(options & 8), RetainHandling(options >> 4))


def _filter(reader: Reader) -> str:
    filter = reader.text("a topic filter")
    check_received_filter(filter)
    return filter


def _suback(reader: Reader, _flags: int, version: Version) -> SubAck:
    packet_id = _packet_id(reader)
    properties = _properties(reader, PacketType.SUBACK, version)
    reasons = _reasons(reader, PacketType.SUBACK)
    if version is Version.V3_1_1 and not SUBACK_3_1_1.issuperset(reasons):
        raise MalformedPacket("SUBACK has an unknown return code")
    return SubAck(packet_id, reasons, properties)


def _reasons(reader: Reader, type: PacketType) -> tuple[ReasonCode, ...]:
    reasons = []
    while reader.remaining_bytes:
        reasons.append(_reason(reader, type))
    if not reasons:
        raise ProtocolError(f"{type.name} has no reason codes")
    return tuple(reasons)


def _unsubscribe(reader: Reader, _flags: int, version: Version) -> Unsubscribe:
    packet_id = _packet_id(reader)
    properties = _properties(reader, PacketType.UNSUBSCRIBE, version)
    filters = []
    while reader.remaining_bytes:
        filters.append(_filter(reader))
    if not filters:
        raise ProtocolError("UNSUBSCRIBE names no topic filter")
    return Unsubscribe(packet_id, tuple(filters), properties)


def _unsuback(reader: Reader, _flags: int, version: Version) -> UnsubAck:
    packet_id = _packet_id(reader)
    if version is Version.V3_1_1:
        return UnsubAck(packet_id)
    properties = read_properties(reader, PacketType.UNSUBACK)
    return UnsubAck(packet_id, _reasons(reader, PacketType.UNSUBACK), properties)


def _disconnect(reader: Reader, _flags: int, version: Version) -> Disconnect:
    return Disconnect(*_reason_and_properties(reader, PacketType.DISCONNECT, version))


def _auth(reader: Reader, _flags: int, version: Version) -> Auth:
    """Without a method only in the short form, which the specification gives to success."""
    is_short = not reader.remaining_bytes
    reason, properties = _reason_and_properties(reader, PacketType.AUTH, version)
    if properties.authentication_method is None and not is_short:
        raise ProtocolError("AUTH names no authentication method")
    return Auth(reason, properties)


_DECODERS: Mapping[PacketType, _Decoder] = {
    PacketType.CONNACK: lambda reader, _flags, version: read_connack(reader, version),
    PacketType.PUBLISH: _publish,
    PacketType.PUBACK: _puback,
    PacketType.PUBREC: _pubrec,
    PacketType.PUBREL: _pubrel,
    PacketType.PUBCOMP: _pubcomp,
    PacketType.SUBSCRIBE: _subscribe,
    PacketType.SUBACK: _suback,
    PacketType.UNSUBSCRIBE: _unsubscribe,
    PacketType.UNSUBACK: _unsuback,
    PacketType.PINGREQ: lambda _reader, _flags, _version: PingReq(),
    PacketType.PINGRESP: lambda _reader, _flags, _version: PingResp(),
    PacketType.DISCONNECT: _disconnect,
    PacketType.AUTH: _auth,
}
