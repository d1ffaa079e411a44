"""A single message that goes from one client straight to others: nobody keeps it, and it goes out as it came. So it is
mostly where somebody waits for each answer, and then it takes half the time of the way through columns and plans."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.broker import Broker
from penstock.codecs.mqtt.kinds import PacketType
from penstock.gateways.mqtt.intake import Intake
from penstock.gateways.mqtt.packets import Packets
from penstock.gateways.mqtt.router import Router
from penstock.gateways.mqtt.session import Session
from penstock.kernels import mqtt_columns as names
from penstock.kernels.mqtt_scan import Scanner

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection

_QOS_0, _QOS_1 = 0x30, 0x32
_COLUMNS = names.HEAD, names.PRESENT, names.PACKET_ID, names.TOPIC_START, names.TOPIC_END, names.PAYLOAD_END
_HEADS = {_QOS_0: bytes([_QOS_0]), _QOS_1: bytes([_QOS_1])}
_NO_IDS = array("i")


class Relay:
    """Of all connections. Asks the same as `Publishes`, `Intake` and `FanOut` do, and leaves to them what is not so
    simple: properties, QoS 2, queues, stored sessions, shares, taps, nobody at all, and receivers that get other bytes."""

    def __init__(self, scanner: Scanner, broker: Broker, router: Callable[[str], Router], intake: Intake) -> None:
        self._scanner, self._publishing, self._taps = scanner, broker.publishing, broker.taps
        self._router, self._intake = router, intake

    def take(self, connection: Connection, data: memoryview, start: int) -> bool:
        """Whether it was sent and answered; if not, nothing has happened. The last scan found one PUBLISH, which begins
        at `start`."""
        heads, present, packet_ids, topic_starts, topic_ends, ends = self._scanner.pick(_COLUMNS)
        head, topic_end, end = heads[0], topic_ends[0], ends[0]
        if present[0] or head not in _HEADS:
            return False
        qos = head >> 1 & 3
        receivers = self._receivers(connection, bytes(data[topic_starts[0] : topic_end]), qos, end - start)
        if receivers is None:
            return False
        if qos:
            connection.session.incoming.publish_qos_1(1)
        ids_at = array("i", (topic_end - start,)) if qos else _NO_IDS
        packets = Packets(bytes(data[start:end]), array("i", (end - start,)), _HEADS[head], ids_at)
        for session in receivers:
            session.push(packets)
        self._intake.received += 1
        if qos:
            connection.session.incoming.puback(1)
            connection.answers.give(connection.answers.owe(PacketType.PUBACK, packet_ids))
        return True

    def _receivers(self, connection: Connection, topic: bytes, qos: int, size_bytes: int) -> list[Session] | None:
        """Those who get the packet as it came; None if that is not all that becomes of it."""
        session = connection.session
        if topic.startswith(b"$") or not connection.permissions.may_publish(topic):
            return None
        if self._taps.count or self._publishing.targets_now(topic, session.namespace):
            return None
        route = self._router(session.namespace).route(topic)
        if route.not_local or route.stored or route.shares:
            return None
        found: list[Session] = []
        for manner, sessions in route.live.items():
            if manner.version != session.version or manner.qos < qos or manner.identifiers:
                return None
            if size_bytes > manner.max_packet_bytes or any(map(_has_aliases, sessions)):
                return None
            found += sessions
        return found or None


def _has_aliases(session: Session) -> bool:
    return session.connection is not None and session.connection.topic_aliases is not None
