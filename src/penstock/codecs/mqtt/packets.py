"""The control packets, one set for MQTT 3.1.1 and 5.0: what a version cannot say stays at its default."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from penstock.codecs.mqtt.kinds import PacketType, Version
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode


@dataclass(frozen=True, slots=True)
class Will:
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class Connect:
    """`clean_start` is the clean session flag of 3.1.1. An empty client id asks the server for one."""

    type: ClassVar[PacketType] = PacketType.CONNECT
    version: Version
    client_id: str
    clean_start: bool = True
    keep_alive_s: int = 0
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class ConnAck:
    type: ClassVar[PacketType] = PacketType.CONNACK
    session_present: bool = False
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class Publish:
    """`packet_id` is 0 in QoS 0 and nowhere else. An empty topic stands for the topic of its alias."""

    type: ClassVar[PacketType] = PacketType.PUBLISH
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class _Answer:
    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class PubAck(_Answer):
    __slots__ = ()
    type: ClassVar[PacketType] = PacketType.PUBACK


class PubRec(_Answer):
    __slots__ = ()
    type: ClassVar[PacketType] = PacketType.PUBREC


class PubRel(_Answer):
    __slots__ = ()
    type: ClassVar[PacketType] = PacketType.PUBREL


class PubComp(_Answer):
    __slots__ = ()
    type: ClassVar[PacketType] = PacketType.PUBCOMP


class RetainHandling(enum.IntEnum):
    """When a subscription is answered with retained messages."""

    SEND = 0
    SEND_IF_NEW = 1
    NEVER = 2


@dataclass(frozen=True, slots=True)
class Subscription:
    """One filter of a SUBSCRIBE. 3.1.1 has the filter and the QoS; the other defaults are how it behaves."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: RetainHandling = RetainHandling.SEND


@dataclass(frozen=True, slots=True)
class Subscribe:
    type: ClassVar[PacketType] = PacketType.SUBSCRIBE
    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class SubAck:
    """One reason for each filter, in their order: the granted QoS or a refusal."""

    type: ClassVar[PacketType] = PacketType.SUBACK
    packet_id: int
    reasons: tuple[ReasonCode, ...]
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    type: ClassVar[PacketType] = PacketType.UNSUBSCRIBE
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class UnsubAck:
    """One reason for each filter, in their order; none in 3.1.1."""

    type: ClassVar[PacketType] = PacketType.UNSUBACK
    packet_id: int
    reasons: tuple[ReasonCode, ...] = ()
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class PingReq:
    type: ClassVar[PacketType] = PacketType.PINGREQ


@dataclass(frozen=True, slots=True)
class PingResp:
    type: ClassVar[PacketType] = PacketType.PINGRESP


@dataclass(frozen=True, slots=True)
class Disconnect:
    type: ClassVar[PacketType] = PacketType.DISCONNECT
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class Auth:
    type: ClassVar[PacketType] = PacketType.AUTH
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


PublishAnswer = PubAck | PubRec | PubRel | PubComp
Packet = (
    Connect
    | ConnAck
    | Publish
    | PublishAnswer
    | Subscribe
    | SubAck
    | Unsubscribe
    | UnsubAck
    | PingReq
    | PingResp
    | Disconnect
    | Auth
)
