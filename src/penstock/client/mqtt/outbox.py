"""What a client has sent and the server has not answered: messages of QoS 1 and 2, and requests to subscribe."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock.client.errors import ConnectionLost
from penstock.client.mqtt.errors import MqttRefused
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.inflight import DEFAULT_RECEIVE_MAXIMUM, Outgoing
from penstock.codecs.mqtt.kinds import PacketType, Version
from penstock.codecs.mqtt.packets import PubAck, PubComp, Publish, PubRec, PubRel, SubAck, UnsubAck
from penstock.codecs.mqtt.reasons import ReasonCode

T = TypeVar("T")
Answer = PubAck | PubRec | PubComp
RequestAnswer = SubAck | UnsubAck
_DUP = 0x08


@dataclass(slots=True)
class Parcel:
    """A PUBLISH of QoS 1 or 2 as bytes, with room for its identifier, and who waits for its end."""

    data: bytearray
    id_at: int
    qos: int
    topic: str
    done: asyncio.Future[ReasonCode]

    def under(self, packet_id: int) -> bytes:
        self.data[self.id_at : self.id_at + 2] = packet_id.to_bytes(2, "big")
        return bytes(self.data)

    def again(self) -> bytes:
        return bytes([self.data[0] | _DUP]) + self.data[1:]


def parcel_of(packet: Publish, version: Version) -> Parcel:
    """InvalidArgument or TooLarge if it cannot be sent. The identifier is written when it is known."""
    data = bytearray(encode(replace(packet, packet_id=1), version))
    body_at = 2
    while data[body_at - 1] & 0x80:
        body_at += 1
    id_at = body_at + 2 + int.from_bytes(data[body_at : body_at + 2], "big")
    return Parcel(data, id_at, packet.qos, packet.topic, asyncio.get_running_loop().create_future())


class Outbox:
    """Of one client. When its session is gone, messages of QoS 1 are sent once more, under new identifiers: at least
    once. Those of QoS 2 are not, since they may have been taken: at most once, and who waits is told so."""

    def __init__(self, version: Version) -> None:
        self._version = version
        self._ids = Outgoing()
        self._parcels: dict[int, Parcel] = {}
        self._waiting: deque[Parcel] = deque()
        self._requests: dict[int, asyncio.Future[RequestAnswer]] = {}

    def __len__(self) -> int:
        """Messages that are not answered."""
        return len(self._parcels) + len(self._waiting)

    def publish(self, parcel: Parcel) -> bytes | None:
        """What to send; None while the server takes no more, or earlier ones go first."""
        return None if self._waiting else self._launch(parcel)

    def request(self, type: PacketType) -> tuple[int, asyncio.Future[RequestAnswer]] | None:
        """An identifier for SUBSCRIBE or UNSUBSCRIBE, and its answer to come; None if all are in use."""
        packet_id = self._ids.request(type)
        if packet_id is None:
            return None
        self._requests[packet_id] = asyncio.get_running_loop().create_future()
        return packet_id, self._requests[packet_id]

    def receive(self, packet: Answer | RequestAnswer) -> bytes:
        """What to send in answer. ProtocolError if nothing of the kind was asked."""
        if isinstance(packet, SubAck | UnsubAck):
            self._ids.receive(packet.type, [packet.packet_id])
            _settle(self._requests.pop(packet.packet_id), packet)
            return b""
        settled = self._ids.receive(packet.type, [packet.packet_id], [packet.reason])
        if settled.finished:
            _settle(self._parcels.pop(packet.packet_id).done, packet.reason)
        elif settled.refused:
            parcel = self._parcels.pop(packet.packet_id)
            what = f"a message to {parcel.topic!r}"
            _fail(parcel.done, MqttRefused(what, packet.reason, packet.properties.reason_string))
        return self._releases(settled.release, settled.not_found) + self.pump()

    def pump(self) -> bytes:
        """Messages that wait to be sent again, as many as the server takes now."""
        made = [self._parcels[packet_id].again() for packet_id in self._ids.resends()]
        while self._waiting and (data := self._launch(self._waiting[0])) is not None:
            made.append(data)
            self._waiting.popleft()
        return b"".join(made)

    def resume(self, is_present: bool, receive_maximum: int = DEFAULT_RECEIVE_MAXIMUM) -> bytes:
        """A new connection: what to send first."""
        lost = ConnectionLost("the connection was lost before the answer came: ask again")
        for request in self._requests.values():
            _fail(request, lost)
        self._requests.clear()
        if is_present:
            return self._releases(self._ids.resume(receive_maximum), []) + self.pump()
        self._ids = Outgoing(receive_maximum)
        self._begin_anew()
        return self.pump()

    def end(self, error: Exception) -> None:
        """Nothing will be answered any more."""
        for parcel in (*self._parcels.values(), *self._waiting):
            _fail(parcel.done, error)
        for request in self._requests.values():
            _fail(request, error)
        self._parcels.clear()
        self._waiting.clear()
        self._requests.clear()

    def _launch(self, parcel: Parcel) -> bytes | None:
        ids = self._ids.publish(1, parcel.qos)
        if not ids:
            return None
        self._parcels[ids[0]] = parcel
        return parcel.under(ids[0])

    def _begin_anew(self) -> None:
        unsure = ConnectionLost(
            "the server has lost the session of a message of QoS 2 that was under way: it may have been taken or not"
        )
        for parcel in self._parcels.values():
            if parcel.qos == 2:
                _fail(parcel.done, unsure)
        again = [parcel for parcel in self._parcels.values() if parcel.qos == 1]
        self._waiting.extendleft(reversed(again))
        self._parcels.clear()

    def _releases(self, known: list[int], not_found: list[int]) -> bytes:
        missing = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND if self._version is Version.V5 else ReasonCode.SUCCESS
        packets = [*map(PubRel, known), *[PubRel(packet_id, missing) for packet_id in not_found]]
        return b"".join([encode(packet, self._version) for packet in packets])


def _settle(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
