"""Clients of MQTT that live through the death of their server: each keeps its side of the session, comes back, and
goes on where it was."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.support.queue_history import require

from penstock.codecs.mqtt.decode import Decoder, Need
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
)
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties

FOR_EVER_S = 0xFFFFFFFF
_COMES_BACK_S = 0.02


@dataclass
class Place:
    """Where the server is, and how often it was killed: a connection that ended without that has a reason."""

    address: tuple[str, int]
    rng: random.Random
    crashes: int = 0
    is_over: bool = False
    failures: list[BaseException] = field(default_factory=list)
    """broken promises that a client saw by itself"""


class Client:
    """One client id. `role` methods are for those who publish, subscribe and consume."""

    def __init__(self, place: Place, client_id: str, version: Version, receive_maximum: int | None = None) -> None:
        self.place, self.client_id, self.version = place, client_id, version
        self._receive_maximum = receive_maximum
        self.unanswered: dict[int, Publish] = {}
        """by packet id, in the order in which they were sent first"""
        self.releasing: dict[int, None] = {}
        """PUBREC came, PUBCOMP did not"""
        self.held: dict[int, bytes] = {}
        """payloads that came with QoS 2 and were not released"""
        self.connection = 0
        self.is_known = False
        """a CONNACK came: the server has the session from then on"""
        self._last_id = 0
        self._writer: asyncio.StreamWriter | None = None
        self._owed: list[Packet] = []
        self._leaves = False

    # Roles

    async def work(self) -> None:
        """While it is connected; cancelled when that ends."""

    def acknowledged(self, message: Publish) -> None:
        """PUBACK or PUBREC came."""

    def refused(self, message: Publish, answer: PubAck | PubRec) -> None:
        require(False, f"{message.topic} of {self.client_id} was refused: {answer}")

    def sending_again(self, message: Publish) -> None: ...

    def arrived(self, message: Publish) -> None:
        """Not called for a message of QoS 2 that the client has already."""

    def subscribed(self, answer: SubAck) -> None: ...

    # Life

    async def live(self) -> None:
        while not self.place.is_over:
            crashes, self._leaves = self.place.crashes, False
            try:
                await self._connect()
            except OSError:
                pass  # nobody listens at the moment, or the connection was reset
            except Exception as error:
                self.place.failures.append(error)
                return
            is_explained = self._leaves or self.place.is_over or self.place.crashes > crashes
            if not is_explained and self.connection and self._writer is not None:
                self.place.failures.append(AssertionError(f"{self.client_id}: the server closed for no reason"))
                return
            self._writer = None
            await asyncio.sleep(self.place.rng.uniform(0, _COMES_BACK_S))

    async def _connect(self) -> None:
        reader, writer = await asyncio.open_connection(*self.place.address)
        decoder = Decoder(self.version)
        worker: asyncio.Task[None] | None = None
        try:
            writer.write(encode(self._greeting(), self.version))
            while data := await reader.read(1 << 16):
                decoder.receive(data)
                while (packet := decoder.next_packet()) is not Need.DATA:
                    if isinstance(packet, ConnAck):
                        self._begin(packet, writer)
                        worker = asyncio.create_task(self._work())
                    else:
                        self._take(packet)
                self._answer_some()
                await writer.drain()
        finally:
            self._owed.clear()
            if worker is not None:
                worker.cancel()
                await asyncio.wait([worker])
            writer.transport.abort()

    async def _work(self) -> None:
        try:
            while True:
                await self.work()
                await asyncio.sleep(0.005)
                self._answer()
        except OSError:
            pass  # the reader sees it too
        except Exception as error:
            self.place.failures.append(error)

    def _greeting(self) -> Connect:
        if self.version is Version.V3_1_1:
            return Connect(self.version, self.client_id, clean_start=False)
        properties = Properties(session_expiry_interval_s=FOR_EVER_S, receive_maximum=self._receive_maximum)
        return Connect(self.version, self.client_id, clean_start=False, properties=properties)

    def _begin(self, answer: ConnAck, writer: asyncio.StreamWriter) -> None:
        require(not answer.reason.is_refusal, f"{self.client_id} was refused: {answer}")
        require(answer.session_present or not self.is_known, f"the session of {self.client_id} is gone")
        self.is_known = True
        self._writer = writer
        self.connection += 1
        for packet_id in self.releasing:
            self.send(PubRel(packet_id))
        for message in self.unanswered.values():
            self.sending_again(message)
            self.send(replace(message, dup=True))

    # Packets

    def send(self, *packets: Packet) -> None:
        assert self._writer is not None
        if self._writer.is_closing():
            return  # the reader is about to see that
        self._writer.write(b"".join(encode(packet, self.version) for packet in packets))

    def leave(self) -> None:
        """Now and then the network fails, and now and then a client says goodbye."""
        assert self._writer is not None
        self._leaves = True
        if self.place.rng.random() < 0.5:
            self.send(Disconnect())
        self._writer.close()

    def next_id(self) -> int:
        while True:
            self._last_id = self._last_id % 65_535 + 1
            if self._last_id not in self.unanswered and self._last_id not in self.releasing:
                return self._last_id

    def publish(self, topic: str, payload: bytes, qos: int, retain: bool, properties: Properties) -> None:
        packet_id = self.next_id()
        message = Publish(topic, payload, qos, retain, packet_id=packet_id, properties=properties)
        self.unanswered[packet_id] = message
        self.send(message)

    def subscribe(self, *subscriptions: Subscription, properties: Properties = NO_PROPERTIES) -> int:
        packet_id = self.next_id()
        self.send(Subscribe(packet_id, subscriptions, properties))
        return packet_id

    def _take(self, packet: Packet) -> None:
        match packet:
            case PubAck():
                self._take_answer(packet)
            case PubRec():
                self._take_received(packet)
            case PubComp():
                self.releasing.pop(packet.packet_id, None)
            case Publish():
                self._take_message(packet)
            case PubRel():
                self.held.pop(packet.packet_id, None)
                self._owed.append(PubComp(packet.packet_id))
            case SubAck():
                require(not any(reason.is_refusal for reason in packet.reasons), f"{self.client_id}: {packet}")
                self.subscribed(packet)
            case _:
                require(False, f"{self.client_id} was sent {packet}")

    def _take_answer(self, packet: PubAck) -> None:
        message = self.unanswered.pop(packet.packet_id, None)
        require(message is not None and message.qos == 1, f"{self.client_id} got {packet} for {message}")
        assert message is not None
        if packet.reason.is_refusal:
            self.refused(message, packet)
        else:
            self.acknowledged(message)

    def _take_received(self, packet: PubRec) -> None:
        message = self.unanswered.pop(packet.packet_id, None)
        if message is not None:
            require(message.qos == 2, f"{self.client_id} got {packet} for {message}")
            if packet.reason.is_refusal:
                return self.refused(message, packet)
            self.releasing[packet.packet_id] = None
            self.acknowledged(message)
        return self.send(PubRel(packet.packet_id))

    def _take_message(self, message: Publish) -> None:
        if message.qos == 2:
            held = self.held.get(message.packet_id)
            what = f"{message.payload[:60]!r} came to {self.client_id} under {message.packet_id}"
            require(held is None or held == message.payload, f"{what}, where {held and held[:60]!r} is held")
            require(held is None or message.dup, f"{what} again without DUP")
            self._owed.append(PubRec(message.packet_id))
            if held is not None:
                return
            self.held[message.packet_id] = message.payload
        elif message.qos == 1:
            self._owed.append(PubAck(message.packet_id))
        self.arrived(message)

    def _answer_some(self) -> None:
        """Not always at once, so that a crash meets messages that were received and not answered."""
        if self.place.rng.random() < 0.6:
            self._answer()

    def _answer(self) -> None:
        if self._owed:
            owed, self._owed = self._owed, []
            self.send(*owed)


async def reached(place: Place, holds: Callable[[], bool], patience_s: float) -> bool:
    """Whether it came to hold. Raises what a client found broken."""
    end = asyncio.get_running_loop().time() + patience_s
    while not holds() and asyncio.get_running_loop().time() < end:
        if place.failures:
            raise place.failures[0]
        await asyncio.sleep(0.01)
    if place.failures:
        raise place.failures[0]
    return holds()
