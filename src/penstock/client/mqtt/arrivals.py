"""What a client owes for the messages it receives: PUBACK, PUBREC and PUBCOMP, once each and not too early."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.client.mqtt.message import Message
from penstock.codecs.mqtt.inflight import DEFAULT_RECEIVE_MAXIMUM, Incoming
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import PubAck, PubComp, Publish, PubRec, PubRel
from penstock.codecs.mqtt.reasons import ReasonCode


@dataclass(frozen=True, slots=True)
class Arrived:
    message: Message | None = None
    """None if it came before"""
    answer: PubRec | None = None


class Arrivals:
    """Of one session. A message of QoS 1 is acknowledged on the connection it came by: lost with it, it comes again.
    One of QoS 2 comes once in a session, and may be acknowledged on any connection of it."""

    def __init__(self, version: Version, receive_maximum: int) -> None:
        self._version = version
        self._receive_maximum = receive_maximum if version is Version.V5 else DEFAULT_RECEIVE_MAXIMUM
        self._incoming = Incoming(self._receive_maximum)
        self._untaken: set[int] = set()
        self._connection, self._session = 0, 0

    def resume(self, is_present: bool) -> None:
        """A new connection; without its session nothing from before is known to the server."""
        self._connection += 1
        if is_present:
            self._incoming.resume(self._receive_maximum)
        else:
            self._session += 1
            self._incoming = Incoming(self._receive_maximum)
            self._untaken.clear()

    def publish(self, packet: Publish) -> Arrived:
        """ProtocolError if the server sends more than it may."""
        if packet.qos == 1:
            self._incoming.publish_qos_1(1)
        elif packet.qos == 2 and self._incoming.publish_qos_2([packet.packet_id]).duplicate:
            # Still in the buffer, it will be answered when it is acknowledged.
            is_taken = packet.packet_id not in self._untaken
            return Arrived(answer=PubRec(packet.packet_id) if is_taken else None)
        elif packet.qos == 2:
            self._untaken.add(packet.packet_id)
        return Arrived(self._message(packet))

    def ack(self, message: Message) -> PubAck | PubRec | None:
        """What to send; None if nothing is owed, or no longer."""
        if message.qos == 1 and message.epoch == self._connection:
            self._incoming.puback(1)
            return PubAck(message.packet_id)
        if message.qos == 2 and message.epoch == self._session and message.packet_id in self._untaken:
            self._untaken.discard(message.packet_id)
            return PubRec(message.packet_id)
        return None

    def release(self, packet: PubRel) -> PubComp:
        released = self._incoming.pubrel([packet.packet_id])
        # Given up before it was acknowledged: the identifier may be used anew.
        self._untaken.discard(packet.packet_id)
        if released.not_found and self._version is Version.V5:
            return PubComp(packet.packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)
        return PubComp(packet.packet_id)

    def _message(self, packet: Publish) -> Message:
        return Message(
            topic=packet.topic,
            payload=packet.payload,
            qos=packet.qos,
            retain=packet.retain,
            is_duplicate=packet.dup,
            properties=packet.properties,
            packet_id=packet.packet_id,
            epoch=self._session if packet.qos == 2 else self._connection,
        )
