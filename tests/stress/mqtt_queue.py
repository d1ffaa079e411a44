"""Many messages through one queue over MQTT: published with QoS 1, consumed, settled by PUBACK, all of them once and in
order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from penstock.codecs.mqtt.decode import Decoder, Need
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    Subscription,
)
from penstock.codecs.mqtt.properties import Properties

QUEUE = "$queue/through"
WINDOW = 1_000
_DEADLINE_S = 60.0
_TERMS = Properties(user_properties=(("consumer-group", "g"), ("ack-mode", "puback")))


@dataclass
class Wire:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    decoder: Decoder = field(default_factory=lambda: Decoder(Version.V5))

    @classmethod
    async def connect(cls, address: tuple[str, int], client_id: str) -> Wire:
        wire = cls(*await asyncio.open_connection(*address))
        wire.send(Connect(Version.V5, client_id))
        async for answer in wire.packets():
            assert isinstance(answer, ConnAck) and not answer.reason.is_refusal, answer
            break
        return wire

    def send(self, *packets: Packet) -> None:
        self.writer.write(b"".join([encode(packet, Version.V5) for packet in packets]))

    async def leave(self) -> None:
        """Reads to the end: a socket that is closed with something in it resets the connection, and what was sent last
        may be lost then."""
        self.send(Disconnect())
        while await asyncio.wait_for(self.reader.read(1 << 18), _DEADLINE_S):
            pass
        self.writer.close()

    async def packets(self) -> AsyncIterator[Packet]:
        while True:
            while (packet := self.decoder.next_packet()) is not Need.DATA:
                yield packet
            await self.writer.drain()
            data = await asyncio.wait_for(self.reader.read(1 << 18), _DEADLINE_S)
            assert data, "the server closed"
            self.decoder.receive(data)


async def publish(address: tuple[str, int], messages: int) -> None:
    wire = await Wire.connect(address, "through-publisher")
    next_number = answered = 0
    while answered < messages:
        stop = min(messages, answered + WINDOW)
        while next_number < stop:
            wire.send(Publish(QUEUE, b"%d" % next_number, 1, packet_id=next_number % 65_535 + 1))
            next_number += 1
        async for answer in wire.packets():
            assert isinstance(answer, PubAck) and answer.packet_id == answered % 65_535 + 1, (answered, answer)
            assert not answer.reason.is_refusal, answer
            answered += 1
            if answered == next_number or next_number - answered < WINDOW // 2:
                break
    await wire.leave()


async def consume(address: tuple[str, int], messages: int) -> None:
    """Whoever was settled before is not seen by the next: one connection to the half, another one for the rest."""
    number = 0
    for stop in (messages // 2, messages):
        wire = await Wire.connect(address, f"through-consumer-{stop}")
        wire.send(Subscribe(1, (Subscription(QUEUE, 1),), _TERMS))
        async for packet in wire.packets():
            if isinstance(packet, SubAck):
                assert not packet.reasons[0].is_refusal, packet
                continue
            assert isinstance(packet, Publish), packet
            if number < stop:
                assert packet.payload == b"%d" % number, (number, packet)
                number += 1
                wire.send(PubAck(packet.packet_id))
            if number == stop:
                break
        await wire.leave()


async def through_queue(address: tuple[str, int], messages: int) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(publish(address, messages))
        group.create_task(consume(address, messages))
