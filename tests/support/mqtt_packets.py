"""Any MQTT packet there can be, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from penstock.codecs.mqtt.kinds import PacketType, Version
from penstock.codecs.mqtt.packets import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PublishAnswer,
    PubRec,
    PubRel,
    RetainHandling,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
    Will,
)
from penstock.codecs.mqtt.properties import NO_PROPERTIES, TABLE, WILL, Kind, Properties, Property
from penstock.codecs.mqtt.reasons import REASON_OF_CONNACK_3_1_1, REASONS, SUBACK_3_1_1, ReasonCode

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
_LEVELS = st.text(st.characters(exclude_characters="\0+#/", exclude_categories=["Cs"]), max_size=4)
TOPICS = st.lists(_LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)
BLOBS = st.binary(max_size=12)
PACKET_IDS = st.sampled_from([1, 2, 127, 128, 255, 256, 65_535]) | st.integers(1, 65_535)
QOS = st.integers(0, 2)


@st.composite
def filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(_LEVELS | st.just("+"), max_size=4))
    if draw(st.booleans()):
        levels.append("#")
    filter = "/".join(levels) or "+"
    is_share = filter.startswith("$share/")
    if draw(st.booleans()) or is_share:
        filter = f"$share/{draw(_LEVELS.filter(bool))}/{'x' if is_share else filter}"
    return filter


def _values(row: Property) -> st.SearchStrategy[Any]:
    most = {Kind.BYTE: row.most, Kind.TWO_BYTES: 65_535, Kind.FOUR_BYTES: 0xFFFFFFFF, Kind.VARINT: row.most}
    if row.kind in most:
        return st.integers(row.least, most[row.kind]) | st.sampled_from([row.least, most[row.kind]])
    kinds: dict[Kind, st.SearchStrategy[Any]] = {
        Kind.FLAG: st.booleans(),
        Kind.TEXT: TEXTS,
        Kind.TOPIC: TOPICS,
        Kind.BINARY: BLOBS,
        Kind.PAIR: st.tuples(TEXTS, TEXTS),
    }
    return kinds[row.kind]


def _field(row: Property, packet: int) -> st.SearchStrategy[Any]:
    if row.is_tuple:
        return st.lists(_values(row), max_size=3 if packet in row.repeatable_in else 1).map(tuple)
    return st.none() | _values(row)


def properties(packet: int, version: Version = Version.V5) -> st.SearchStrategy[Properties]:
    if version is Version.V3_1_1:
        return st.just(NO_PROPERTIES)
    rows = [row for row in TABLE if packet in row.packets]
    return st.builds(Properties, **{row.name: _field(row, packet) for row in rows})


def wills(version: Version) -> st.SearchStrategy[Will]:
    return st.builds(Will, TOPICS, BLOBS, QOS, st.booleans(), properties(WILL, version))


@st.composite
def connects(draw: st.DrawFn, version: Version) -> Connect:
    made = draw(properties(PacketType.CONNECT, version))
    if made.authentication_method is None:
        made = Properties(receive_maximum=made.receive_maximum, user_properties=made.user_properties)
    username = draw(st.none() | TEXTS)
    password = draw(st.none() | BLOBS) if username is not None or version is Version.V5 else None
    client_id, keep_alive_s = draw(TEXTS), draw(st.integers(0, 65_535))
    is_clean = draw(st.booleans()) or not client_id
    return Connect(
        version, client_id, is_clean, keep_alive_s, draw(st.none() | wills(version)), username, password, made
    )


@st.composite
def connacks(draw: st.DrawFn, version: Version) -> ConnAck:
    reasons = REASON_OF_CONNACK_3_1_1 if version is Version.V3_1_1 else sorted(REASONS[PacketType.CONNACK])
    reason = draw(st.sampled_from(reasons))
    is_present = draw(st.booleans()) and not reason.is_refusal
    return ConnAck(is_present, reason, draw(properties(PacketType.CONNACK, version)))


@st.composite
def publishes(draw: st.DrawFn, version: Version) -> Publish:
    qos, made = draw(QOS), draw(properties(PacketType.PUBLISH, version))
    topic = "" if made.topic_alias is not None and draw(st.booleans()) else draw(TOPICS)
    is_dup = bool(qos) and draw(st.booleans())
    packet_id = draw(PACKET_IDS) if qos else 0
    payload = draw(BLOBS | st.sampled_from([b"", bytes(200), bytes(20_000)]))
    return Publish(topic, payload, qos, draw(st.booleans()), is_dup, packet_id, made)


def _reasons(type: PacketType, version: Version) -> st.SearchStrategy[ReasonCode]:
    return st.just(ReasonCode.SUCCESS) if version is Version.V3_1_1 else st.sampled_from(sorted(REASONS[type]))


def publish_answers(version: Version) -> st.SearchStrategy[PublishAnswer]:
    def answers(kind: type[PublishAnswer]) -> st.SearchStrategy[PublishAnswer]:
        return st.builds(kind, PACKET_IDS, _reasons(kind.type, version), properties(kind.type, version))

    return answers(PubAck) | answers(PubRec) | answers(PubRel) | answers(PubComp)


@st.composite
def subscriptions(draw: st.DrawFn, version: Version) -> Subscription:
    filter, qos = draw(filters()), draw(QOS)
    if version is Version.V3_1_1:
        return Subscription(filter, qos)
    no_local = draw(st.booleans()) and not filter.startswith("$share/")
    return Subscription(filter, qos, no_local, draw(st.booleans()), draw(st.sampled_from(RetainHandling)))


def subscribes(version: Version) -> st.SearchStrategy[Subscribe]:
    some = st.lists(subscriptions(version), min_size=1, max_size=4).map(tuple)
    return st.builds(Subscribe, PACKET_IDS, some, properties(PacketType.SUBSCRIBE, version))


def subacks(version: Version) -> st.SearchStrategy[SubAck]:
    codes = SUBACK_3_1_1 if version is Version.V3_1_1 else REASONS[PacketType.SUBACK]
    some = st.lists(st.sampled_from(sorted(codes)), min_size=1, max_size=4).map(tuple)
    return st.builds(SubAck, PACKET_IDS, some, properties(PacketType.SUBACK, version))


def unsubscribes(version: Version) -> st.SearchStrategy[Unsubscribe]:
    some = st.lists(filters(), min_size=1, max_size=4).map(tuple)
    return st.builds(Unsubscribe, PACKET_IDS, some, properties(PacketType.UNSUBSCRIBE, version))


def unsubacks(version: Version) -> st.SearchStrategy[UnsubAck]:
    if version is Version.V3_1_1:
        return st.builds(UnsubAck, PACKET_IDS)
    some = st.lists(st.sampled_from(sorted(REASONS[PacketType.UNSUBACK])), min_size=1, max_size=4).map(tuple)
    return st.builds(UnsubAck, PACKET_IDS, some, properties(PacketType.UNSUBACK))


def disconnects(version: Version) -> st.SearchStrategy[Disconnect]:
    type = PacketType.DISCONNECT
    return st.builds(Disconnect, _reasons(type, version), properties(type, version))


def auths() -> st.SearchStrategy[Auth]:
    made = properties(PacketType.AUTH).filter(lambda made: made.authentication_method is not None)
    return st.just(Auth()) | st.builds(Auth, _reasons(PacketType.AUTH, Version.V5), made)


def packets(version: Version) -> st.SearchStrategy[Packet]:
    """Of every type but CONNECT."""
    kinds: list[st.SearchStrategy[Packet]] = [
        connacks(version),
        publishes(version),
        publish_answers(version),
        subscribes(version),
        subacks(version),
        unsubscribes(version),
        unsubacks(version),
        disconnects(version),
        st.sampled_from([PingReq(), PingResp()]),
    ]
    return st.one_of(kinds if version is Version.V3_1_1 else [*kinds, auths()])
