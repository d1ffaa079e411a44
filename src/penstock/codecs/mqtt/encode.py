"""Packets to bytes. What cannot be sent is refused with InvalidArgument or TooLarge, never bent: MQTT 3.1.1 has neither
properties nor refusals of a publish, and nobody is told less than was meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.codecs.mqtt.connect import connack_body, connect_body
from penstock.codecs.mqtt.errors import PacketError
from penstock.codecs.mqtt.kinds import MAX_PACKET_BYTES, MAX_PACKET_ID, MAX_REMAINING_BYTES, PacketType, Sender, Version
from penstock.codecs.mqtt.packets import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    Publish,
    PublishAnswer,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
)
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties, properties_bytes
from penstock.codecs.mqtt.reasons import CONNACK_3_1_1, DISCONNECT_OF, REASONS, SUBACK_3_1_1, ReasonCode
from penstock.codecs.mqtt.text import check_filter, check_topic, parse_shared
from penstock.codecs.mqtt.wire import text_bytes, varint_bytes
from penstock.core.errors import InvalidArgument, TooLarge

_FLAGS: Mapping[PacketType, int] = {PacketType.PUBREL: 2, PacketType.SUBSCRIBE: 2, PacketType.UNSUBSCRIBE: 2}
_ALWAYS_EXPLAINED = (PacketType.PUBLISH, PacketType.CONNACK, PacketType.DISCONNECT)
"""may have a reason string and user properties, whatever Request Problem Information says"""


def encode(packet: Packet, version: Version) -> bytes:
    if version is Version.V3_1_1:
        _check_3_1_1(packet)
    body = _body(packet, version)
    if len(body) > MAX_REMAINING_BYTES:
        raise TooLarge(f"the body of {packet.type.name}", len(body), MAX_REMAINING_BYTES)
    flags = _publish_flags(packet) if isinstance(packet, Publish) else _FLAGS.get(packet.type, 0)
    return bytes([packet.type << 4 | flags]) + varint_bytes(len(body)) + body


def encode_within(packet: Packet, version: Version, max_packet_bytes: int, tells_problems: bool = True) -> bytes | None:
    """A packet for a receiver that takes no larger one. What only explains, the reason string and user properties, is
    left out where it has no room [MQTT-3.2.2-19] [MQTT-3.2.2-20], or where the receiver asked for none and the packet
    is of a kind that must not have it then [MQTT-3.1.2-29]. None if even that is too large [MQTT-3.1.2-24]."""
    if tells_problems or packet.type in _ALWAYS_EXPLAINED:
        encoded = encode(packet, version)
        if len(encoded) <= max_packet_bytes:
            return encoded
    encoded = encode(_unexplained(packet), version)
    return encoded if len(encoded) <= max_packet_bytes else None


def _unexplained(packet: Packet) -> Packet:
    if isinstance(packet, PingReq | PingResp):
        return packet
    return replace(packet, properties=replace(packet.properties, reason_string=None, user_properties=()))


def encode_refusal(error: PacketError, is_open: bool, max_packet_bytes: int = MAX_PACKET_BYTES) -> bytes:
    """What a server sends before it closes: CONNACK before the connection is open, then DISCONNECT. Empty where the
    version has no words for it, or the client does not take a packet of that size. The detail goes along as the reason
    string if there is room for it."""
    if error.version is None:
        return b""
    packet = _disconnect_for(error) if is_open else _connack_for(error)
    return b"" if packet is None else encode_within(packet, error.version, max_packet_bytes) or b""


def _disconnect_for(error: PacketError) -> Disconnect | None:
    if error.version is Version.V3_1_1:
        return None
    is_allowed = error.reason in DISCONNECT_OF[Sender.SERVER]
    return Disconnect(error.reason if is_allowed else ReasonCode.PROTOCOL_ERROR, Properties(reason_string=error.detail))


def _connack_for(error: PacketError) -> ConnAck | None:
    if error.version is Version.V3_1_1:
        return ConnAck(reason=error.reason) if error.reason in CONNACK_3_1_1 else None
    is_allowed = error.reason in REASONS[PacketType.CONNACK]
    reason = error.reason if is_allowed else ReasonCode.PROTOCOL_ERROR
    return ConnAck(reason=reason, properties=Properties(reason_string=error.detail))


def _check_3_1_1(packet: Packet) -> None:
    if isinstance(packet, Auth):
        raise InvalidArgument("MQTT 3.1.1 has no AUTH")
    if isinstance(packet, PingReq | PingResp):
        return
    will = packet.will if isinstance(packet, Connect) else None
    if packet.properties != NO_PROPERTIES or (will is not None and will.properties != NO_PROPERTIES):
        raise InvalidArgument(f"MQTT 3.1.1 has no properties: send {packet.type.name} without them")
    if isinstance(packet, PublishAnswer | Disconnect) and packet.reason is not ReasonCode.SUCCESS:
        raise InvalidArgument(f"{packet.type.name} of MQTT 3.1.1 cannot say {packet.reason!s}: close the connection")


def _body(packet: Packet, version: Version) -> bytes:
    match packet:
        case Connect():
            return connect_body(packet, version)
        case ConnAck():
            _check_reason(packet.reason, packet.type)
            return connack_body(packet, version)
        case Publish():
            return _publish_body(packet, version)
        case Subscribe():
            return _subscribe_body(packet, version)
        case Unsubscribe():
            return _unsubscribe_body(packet, version)
        case SubAck() | UnsubAck():
            return _subscription_answer_body(packet, version)
        case Disconnect() | Auth():
            return _ending_body(packet)
        case PingReq() | PingResp():
            return b""
        case _:
            return _packet_id_bytes(packet.packet_id) + _ending_body(packet)


def _publish_flags(packet: Publish) -> int:
    return packet.dup << 3 | packet.qos << 1 | packet.retain


def _publish_body(packet: Publish, version: Version) -> bytes:
    if not 0 <= packet.qos <= 2:
        raise InvalidArgument(f"a PUBLISH has QoS {packet.qos}: give 0, 1 or 2")
    if packet.dup and not packet.qos:
        raise InvalidArgument("a PUBLISH of QoS 0 cannot be a duplicate: leave dup out")
    if packet.topic or packet.properties.topic_alias is None:
        check_topic(packet.topic)
    made = bytearray(text_bytes(packet.topic, "the topic name"))
    if packet.qos:
        made += _packet_id_bytes(packet.packet_id)
    elif packet.packet_id:
        raise InvalidArgument("a PUBLISH of QoS 0 has no packet identifier: leave it 0")
    made += _properties(packet.properties, packet.type, version)
    # Checked before the copy: a payload too long is not worth it.
    if len(made) + len(packet.payload) > MAX_REMAINING_BYTES:
        raise TooLarge("the body of PUBLISH", len(made) + len(packet.payload), MAX_REMAINING_BYTES)
    return bytes(made + packet.payload)


def _packet_id_bytes(packet_id: int) -> bytes:
    if not 1 <= packet_id <= MAX_PACKET_ID:
        raise InvalidArgument(f"the packet identifier is {packet_id}: give 1 to {MAX_PACKET_ID}")
    return packet_id.to_bytes(2, "big")


def _properties(properties: Properties, type: PacketType, version: Version) -> bytes:
    return properties_bytes(properties, type) if version is Version.V5 else b""


def _check_reason(reason: ReasonCode, type: PacketType) -> None:
    if reason not in REASONS[type]:
        raise InvalidArgument(f"{type.name} cannot have the reason {reason!s}")


def _ending_body(packet: PublishAnswer | Disconnect | Auth) -> bytes:
    """Reason and properties, left out where they say nothing."""
    _check_reason(packet.reason, packet.type)
    is_short = packet.properties == NO_PROPERTIES
    if is_short and packet.reason is ReasonCode.SUCCESS:
        return b""
    if isinstance(packet, Auth) and packet.properties.authentication_method is None:
        raise InvalidArgument("AUTH names its authentication method: give it")
    return bytes([packet.reason]) + (b"" if is_short else properties_bytes(packet.properties, packet.type))


def _subscribe_body(packet: Subscribe, version: Version) -> bytes:
    if not packet.subscriptions:
        raise InvalidArgument("SUBSCRIBE names no topic filter: give one at least")
    made = bytearray(_packet_id_bytes(packet.packet_id) + _properties(packet.properties, packet.type, version))
    for subscription in packet.subscriptions:
        check_filter(subscription.filter)
        made += text_bytes(subscription.filter, "a topic filter")
        made.append(_options(subscription, version))
    return bytes(made)


def _options(subscription: Subscription, version: Version) -> int:
    if not 0 <= subscription.qos <= 2:
        raise InvalidArgument(f"a subscription has QoS {subscription.qos}: give 0, 1 or 2")
    if subscription.no_local and parse_shared(subscription.filter):
        raise InvalidArgument(f"a shared subscription cannot be no-local: {subscription.filter!r}")
    extras = subscription.no_local << 2 | subscription.retain_as_published << 3 | subscription.retain_handling << 4
    if extras and version is Version.V3_1_1:
        raise InvalidArgument("a subscription of MQTT 3.1.1 has a QoS and no other options: leave them out")
    return subscription.qos | extras


def _unsubscribe_body(packet: Unsubscribe, version: Version) -> bytes:
    if not packet.filters:
        raise InvalidArgument("UNSUBSCRIBE names no topic filter: give one at least")
    made = bytearray(_packet_id_bytes(packet.packet_id) + _properties(packet.properties, packet.type, version))
    for filter in packet.filters:
        check_filter(filter)
        made += text_bytes(filter, "a topic filter")
    return bytes(made)


def _subscription_answer_body(packet: SubAck | UnsubAck, version: Version) -> bytes:
    """In 3.1.1 every refusal of a filter is 0x80, and an UNSUBACK is its packet identifier."""
    packet_id = _packet_id_bytes(packet.packet_id)
    if version is Version.V3_1_1 and isinstance(packet, UnsubAck):
        return packet_id
    if not packet.reasons:
        raise InvalidArgument(f"{packet.type.name} has no reasons: give one for each filter")
    for reason in packet.reasons:
        _check_reason(reason, packet.type)
    if version is Version.V3_1_1:
        failed = ReasonCode.UNSPECIFIED_ERROR
        return packet_id + bytes(reason if reason in SUBACK_3_1_1 else failed for reason in packet.reasons)
    return packet_id + properties_bytes(packet.properties, packet.type) + bytes(packet.reasons)
