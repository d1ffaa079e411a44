"""A single message that goes from one client straight to others: nobody keeps it, and it goes out as it came. So it is
mostly where somebody waits for each answer, and then it takes half the time of the way through columns and plans."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, cast

from penstock.broker.broker import Broker
from penstock.broker.topics.topics import Topics
from penstock.codecs.mqtt.kinds import PacketType
from penstock.gateways.mqtt.arrival import Scanned
from penstock.gateways.mqtt.fanout import MqttAudience
from penstock.gateways.mqtt.packets import Packets
from penstock.gateways.mqtt.session import Session
from penstock.kernels import mqtt_columns as names

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection

_QOS_0, _QOS_1 = 0x30, 0x32
_COLUMNS = names.HEAD, names.PRESENT, names.PACKET_ID, names.TOPIC_START, names.TOPIC_END, names.PAYLOAD_END
_HEADS = {_QOS_0: bytes([_QOS_0]), _QOS_1: bytes([_QOS_1])}
_NO_IDS = array("i")


class Relay:
    """Of all connections. Asks the same as `Publishes`, `Topics` and `FanOut` do, and leaves to them what is not so
    simple: properties, QoS 2, queues, stored sessions, shares, taps, nobody, and receivers that get other bytes."""

    def __init__(self, broker: Broker, topics: Topics) -> None:
        self._routes, self._taps = broker.publishing.routes, broker.taps
        self._topics = topics

    def take(self, connection: Connection, scanned: Scanned, data: memoryview) -> bool:
        """Whether it was sent and answered; if not, nothing has happened. The scan found one PUBLISH, with which the
        data begins."""
        heads, present, packet_ids, topic_starts, topic_ends, ends = scanned.pick(_COLUMNS)
        head, topic_end, end = heads[0], topic_ends[0], ends[0]
        if present[0] or head not in _HEADS:
            return False
        qos = head >> 1 & 3
        receivers = self._receivers(connection, bytes(data[topic_starts[0] : topic_end]), qos, end)
        if receivers is None:
            return False
        if qos:
            connection.session.incoming.publish_qos_1(1)
        ids_at = array("i", (topic_end,)) if qos else _NO_IDS
        packets = Packets(bytes(data[:end]), array("i", (end,)), _HEADS[head], ids_at)
        for session in receivers:
            session.push(packets)
        self._topics.received += 1
        if qos:
            connection.session.incoming.puback(1)
            connection.answers.give(connection.answers.owe(PacketType.PUBACK, packet_ids))
        return True

    def _receivers(self, connection: Connection, topic: bytes, qos: int, size_bytes: int) -> list[Session] | None:
        """Those who get the packet as it came; None if that is not all that becomes of it."""
        session = connection.session
        if topic.startswith(b"$") or not connection.permissions.may_publish(topic):
            return None
        if self._taps.count or self._routes.queues(topic, session.namespace):
            return None
        route = self._topics.router(session.namespace).route(topic)
        if route.not_local or route.stored or route.shares:
            return None
        found: list[Session] = []
        for manner, subscribers in route.live.items():
            audience, sessions = manner.audience, cast("list[Session]", subscribers)
            if not isinstance(audience, MqttAudience) or audience.version != session.version:
                return None
            if manner.qos < qos or manner.identifiers or size_bytes > audience.max_packet_bytes:
                return None
            if any(map(_is_special, sessions)):
                return None
            found += sessions
        return found or None


def _is_special(session: Session) -> bool:
    """It takes aliases, or has to wait for what is stored for it."""
    return session.connection is not None and (session.connection.topic_aliases is not None or session.is_storing)
