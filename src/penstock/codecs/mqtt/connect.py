"""CONNECT and CONNACK, both ways: the packets by which the version is agreed on."""

from __future__ import annotations

from penstock.codecs.mqtt.errors import MalformedPacket, PacketError, ProtocolError
from penstock.codecs.mqtt.kinds import PacketType, Version
from penstock.codecs.mqtt.packets import ConnAck, Connect, Will
from penstock.codecs.mqtt.properties import NO_PROPERTIES, WILL, Properties, properties_bytes, read_properties
from penstock.codecs.mqtt.reasons import CONNACK_3_1_1, REASON_OF_CONNACK_3_1_1, REASONS, ReasonCode
from penstock.codecs.mqtt.text import check_received_topic, check_topic
from penstock.codecs.mqtt.wire import Reader, binary_bytes, text_bytes, unsigned_bytes
from penstock.core.errors import InvalidArgument

_PROTOCOL_NAME = "MQTT"
_PROTOCOL_NAME_3_1 = "MQIsdp"
_BRIDGE_BIT = 0x80
"""Bridges set it in the protocol level at first, and come again without it when they are told of the version."""

_RESERVED, _CLEAN_START, _WILL, _WILL_RETAIN, _PASSWORD, _USERNAME = 0x01, 0x02, 0x04, 0x20, 0x40, 0x80
_WILL_BITS = 0x38


def read_connect(reader: Reader, is_overlong: bool) -> Connect:
    version = _read_version(reader)
    try:
        if is_overlong and version is Version.V5:
            raise MalformedPacket("the length of the packet takes more bytes than it needs")
        packet = _read_fields(reader, version)
        reader.finish()
    except PacketError as fault:
        fault.version = version
        raise
    return packet


def _read_version(reader: Reader) -> Version:
    """A client of MQTT 3.1 or of a later version than ours is answered in the form that it can read."""
    name = reader.text("the protocol name")
    if name not in (_PROTOCOL_NAME, _PROTOCOL_NAME_3_1):
        raise MalformedPacket(f"the protocol name is {name!r}", ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)
    level = reader.unsigned(1, "the protocol level")
    if name == _PROTOCOL_NAME and level in (Version.V3_1_1, Version.V5):
        return Version(level)
    is_old = name == _PROTOCOL_NAME_3_1 or level & ~_BRIDGE_BIT < Version.V5
    raise ProtocolError(
        f"there is no {name} of level {level} here, but MQTT of level 4 (3.1.1) and 5 (5.0)",
        ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
        Version.V3_1_1 if is_old else Version.V5,
    )


def _read_fields(reader: Reader, version: Version) -> Connect:
    flags = reader.unsigned(1, "the connect flags")
    _check_flags(flags, version)
    keep_alive_s = reader.unsigned(2, "the keep alive")
    properties = _read_properties(reader, PacketType.CONNECT, version)
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise ProtocolError("CONNECT has authentication data and no authentication method")
    client_id = reader.text("the client identifier")
    is_clean = bool(flags & _CLEAN_START)
    if version is Version.V3_1_1 and not client_id and not is_clean:
        raise ProtocolError("an empty client identifier needs a clean session", ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)
    will = _read_will(reader, flags, version) if flags & _WILL else None
    username = reader.text("the user name") if flags & _USERNAME else None
    password = reader.binary("the password") if flags & _PASSWORD else None
    return Connect(version, client_id, is_clean, keep_alive_s, will, username, password, properties)


def _check_flags(flags: int, version: Version) -> None:
    if flags & _RESERVED:
        raise MalformedPacket("the reserved connect flag is set")
    if flags & _WILL_BITS and not flags & _WILL:
        raise MalformedPacket("the QoS or retain flag of a will is set, but there is no will")
    if flags >> 3 & 3 == 3:
        raise MalformedPacket("the will has QoS 3")
    if version is Version.V3_1_1 and flags & _PASSWORD and not flags & _USERNAME:
        raise MalformedPacket("there is a password and no user name")


def _read_will(reader: Reader, flags: int, version: Version) -> Will:
    properties = _read_properties(reader, WILL, version)
    topic = reader.text("the will topic")
    check_received_topic(topic)
    return Will(topic, reader.binary("the will payload"), flags >> 3 & 3, bool(flags & _WILL_RETAIN), properties)


def _read_properties(reader: Reader, packet: int, version: Version) -> Properties:
    return read_properties(reader, packet) if version is Version.V5 else NO_PROPERTIES


def read_connack(reader: Reader, version: Version) -> ConnAck:
    flags = reader.unsigned(1, "the acknowledge flags")
    if flags > 1:
        raise MalformedPacket(f"CONNACK has flags {flags:08b}")
    code = reader.unsigned(1, "the reason code")
    if version is Version.V3_1_1:
        if code >= len(REASON_OF_CONNACK_3_1_1):
            raise MalformedPacket(f"CONNACK has the return code {code}")
        reason = REASON_OF_CONNACK_3_1_1[code]
    elif code in REASONS[PacketType.CONNACK]:
        reason = ReasonCode(code)
    else:
        raise ProtocolError(f"CONNACK has the reason code 0x{code:02X}")
    if flags and reason.is_refusal:
        raise ProtocolError("a refusing CONNACK says that there is a session")
    return ConnAck(bool(flags), reason, _read_properties(reader, PacketType.CONNACK, version))


def connect_body(packet: Connect, version: Version) -> bytes:
    _check_connect(packet, version)
    made = bytearray(text_bytes(_PROTOCOL_NAME, "the protocol name"))
    made.append(version)
    made.append(_flags(packet))
    made += unsigned_bytes(packet.keep_alive_s, 2, "the keep alive")
    if version is Version.V5:
        made += properties_bytes(packet.properties, PacketType.CONNECT)
    made += text_bytes(packet.client_id, "the client identifier")
    if packet.will is not None:
        made += _will_bytes(packet.will, version)
    if packet.username is not None:
        made += text_bytes(packet.username, "the user name")
    if packet.password is not None:
        made += binary_bytes(packet.password, "the password")
    return bytes(made)


def _check_connect(packet: Connect, version: Version) -> None:
    if packet.version is not version:
        raise InvalidArgument(f"a CONNECT of MQTT {packet.version!s} is not written as MQTT {version!s}")
    if packet.will is not None and not 0 <= packet.will.qos <= 2:
        raise InvalidArgument(f"the will has QoS {packet.will.qos}: give 0, 1 or 2")
    if version is Version.V3_1_1:
        if packet.password is not None and packet.username is None:
            raise InvalidArgument("MQTT 3.1.1 has no password without a user name: give both")
        if not packet.client_id and not packet.clean_start:
            raise InvalidArgument("an empty client identifier needs a clean session: give one, or start clean")
    elif packet.properties.authentication_data is not None and packet.properties.authentication_method is None:
        raise InvalidArgument("authentication data needs its method: give both")


def _flags(packet: Connect) -> int:
    flags = _CLEAN_START * packet.clean_start
    if packet.will is not None:
        flags |= _WILL | packet.will.qos << 3 | _WILL_RETAIN * packet.will.retain
    return flags | _USERNAME * (packet.username is not None) | _PASSWORD * (packet.password is not None)


def _will_bytes(will: Will, version: Version) -> bytes:
    check_topic(will.topic)
    properties = properties_bytes(will.properties, WILL) if version is Version.V5 else b""
    return properties + text_bytes(will.topic, "the will topic") + binary_bytes(will.payload, "the will payload")


def connack_body(packet: ConnAck, version: Version) -> bytes:
    if packet.session_present and packet.reason.is_refusal:
        raise InvalidArgument("a CONNACK that refuses has no session: leave session_present out")
    if version is Version.V5:
        return bytes([packet.session_present, packet.reason]) + properties_bytes(packet.properties, PacketType.CONNACK)
    code = CONNACK_3_1_1.get(packet.reason)
    if code is None:
        raise InvalidArgument(f"the CONNACK of MQTT 3.1.1 cannot say {packet.reason!s}: close the connection")
    return bytes([packet.session_present, code])
