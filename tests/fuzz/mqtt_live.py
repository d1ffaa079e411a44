"""Mutated packets and sessions through a live server: it stays up, closes what is malformed and nothing else, its
memory returns, and a client beside all that notices nothing.

python -m tests.fuzz.mqtt_live --count 100000 --seed 1"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.fuzz.packets import TOPICS, mutate_stream, seed_stream
from tests.support.live_server import LiveServer, live_server
from tests.support.mqtt_wire import packet, short, string, user_property, variable

from penstock.codecs.mqtt.decode import Decoder, Need
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.errors import PacketError
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Connect, PubAck, Publish, Subscribe, Subscription

# Sessions, queues and retained messages of mutants are few or end soon: what stays in memory is a leak.
SETTINGS = ("mqtt.max_session_expiry=1s", "broker.max_auto_queues=20", "mqtt.sys_interval=1s", "storage.disk_reserve=0")
AT_ONCE = 32
GROWTH_BYTES = 48 << 20
_WARM_UP = 1_000
_DEADLINE_S = 30.0
_FILTERS = (b"a", b"devices/#", b"+/cellar/+", b"#", b"$share/g/devices/#", b"$queue/jobs", b"$queue/jobs/#", b"$SYS/#")
_PING = b"\xc0\x00"


# What is sent


def session_script(rng: random.Random) -> bytes:
    """A connection from CONNECT on, in which mostly one thing is wrong."""
    version, stream = seed_stream(rng)
    parts = [_connect(rng, version), *(_request(rng, version) for _ in range(rng.randint(0, 3))), stream]
    if rng.random() < 0.2:
        parts.append(b"\xe0\x00")
    place = rng.randrange(len(parts))
    if rng.random() < 0.9:
        parts[place] = mutate_stream(rng, parts[place])
    if rng.random() < 0.05:
        rng.shuffle(parts)
    return b"".join(parts)


def _connect(rng: random.Random, version: int) -> bytes:
    has_will, has_user = rng.random() < 0.3, rng.random() < 0.3
    flags = (rng.random() < 0.7) << 1 | has_user << 7 | has_user << 6
    flags |= (4 | rng.randrange(3) << 3 | (rng.random() < 0.2) << 5) if has_will else 0
    body = string(b"MQTT") + bytes([version, flags]) + short(rng.choice((0, 1, 60, 65535)))
    if version == 5:
        body += _properties(b"".join(rng.sample(_CONNECT_PROPERTIES, rng.randint(0, 4))))
    body += string(b"mutant-%d" % rng.randrange(50))
    if has_will:
        body += _properties(b"\x18\0\0\0\1" if rng.random() < 0.5 else b"") if version == 5 else b""
        body += string(rng.choice(TOPICS)) + string(b"gone")
    return packet(0x10, body + (string(b"user") + string(b"password") if has_user else b""))


def _properties(encoded: bytes) -> bytes:
    return variable(len(encoded)) + encoded


_CONNECT_PROPERTIES = [
    b"\x11\0\0\0\x05",
    b"\x21" + short(3),
    b"\x27\0\0\x01\0",
    b"\x22" + short(10),
    b"\x19\1",
    b"\x17\0",
    user_property(b"k", b"v"),
    b"\x15" + string(b"SCRAM-SHA-256") + b"\x16" + string(b"n,,n=user,r=fyko"),
]


def _request(rng: random.Random, version: int) -> bytes:
    filters = rng.sample(_FILTERS, rng.randint(1, 3))
    packet_id = short(rng.randint(1, 65535))
    if rng.random() < 0.2:
        return packet(0xA2, packet_id + (b"\0" if version == 5 else b"") + b"".join(map(string, filters)))
    named = user_property(b"consumer-group", b"g") + user_property(b"ack-mode", b"puback") + b"\x0b\x07"
    carried = _properties(named if rng.random() < 0.3 else b"") if version == 5 else b""
    return packet(0x82, packet_id + carried + b"".join(string(each) + bytes([rng.randrange(3)]) for each in filters))


def is_malformed(data: bytes) -> bool:
    """By our own codec, which other tests hold against a reference: the server has to close."""
    decoder = Decoder()
    decoder.receive(data)
    try:
        while (found := decoder.next_packet()) is not Need.DATA:
            if found.type.name == "DISCONNECT":
                return False
    except PacketError:
        return True
    return False


# How it is answered


@dataclass
class Siege:
    """Many mutants at a time against one server, with a witness beside them."""

    server: LiveServer
    rng: random.Random
    done: int = 0
    endings: Counter[str] = field(default_factory=Counter)

    async def run(self, mutants: int) -> None:
        left = iter(range(mutants))
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._attack(left))

    async def _attack(self, left: Iterator[int]) -> None:
        while next(left, None) is not None:
            data = session_script(self.rng)
            try:
                self.endings[await asyncio.wait_for(self._one(data), _DEADLINE_S)] += 1
            except TimeoutError:
                raise AssertionError(f"the server keeps a connection open that sent {data.hex()}") from None
            self.done += 1

    async def _one(self, data: bytes) -> str:
        reader, writer = await asyncio.open_connection(*self.server.address)
        try:
            for piece in self._pieces(data):
                writer.write(piece)
                await writer.drain()
            closes_itself = is_malformed(data)
            if not closes_itself:
                writer.write_eof()
            while await reader.read(1 << 16):
                pass
            return "malformed" if closes_itself else "taken"
        except ConnectionError:
            return "reset"
        finally:
            writer.transport.abort()

    def _pieces(self, data: bytes) -> list[bytes]:
        if self.rng.random() < 0.8 or not data:
            return [data]
        place = self.rng.randrange(len(data))
        return [data[:place], data[place:]]


@dataclass
class Witness:
    """Publishes to itself with QoS 1, and gets each message once, in order, over one connection."""

    address: tuple[str, int]
    came: int = 0
    is_over: bool = False

    async def watch(self) -> None:
        reader, writer = await asyncio.open_connection(*self.address)
        decoder, topic = Decoder(Version.V5), f"witness/{id(self)}"
        for said in (Connect(Version.V5, "witness"), Subscribe(1, (Subscription(topic, 1),))):
            writer.write(encode(said, Version.V5))
        for number in count():
            if self.is_over:
                break
            packet_id = number % 60_000 + 1
            writer.write(encode(Publish(topic, b"%d" % number, 1, packet_id=packet_id), Version.V5))
            await self._echo(reader, writer, decoder, number, packet_id)
            await asyncio.sleep(0.005)
        writer.transport.abort()

    async def _echo(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decoder: Decoder, number: int, packet_id: int
    ) -> None:
        is_answered = has_come = False
        while not (is_answered and has_come):
            while (got := decoder.next_packet()) is Need.DATA:
                data = await asyncio.wait_for(reader.read(1 << 16), _DEADLINE_S)
                assert data, f"the witness was put out after {self.came} messages"
                decoder.receive(data)
            if isinstance(got, PubAck):
                assert got.packet_id == packet_id and not got.reason.is_refusal, got
                is_answered = True
            elif isinstance(got, Publish):
                assert got.payload == b"%d" % number, (number, got)
                writer.write(encode(PubAck(got.packet_id), Version.V5))
                has_come, self.came = True, self.came + 1


async def besiege(server: LiveServer, seed: int, mutants: int) -> Siege:
    """AssertionError if the server dies, keeps a malformed connection, disturbs the witness, or grows."""
    siege, witness = Siege(server, random.Random(seed)), Witness(server.address)
    watching = asyncio.create_task(witness.watch())
    await siege.run(min(_WARM_UP, mutants))
    before = server.resident_bytes
    running = asyncio.create_task(siege.run(mutants))
    await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
    witness.is_over = True
    assert server.is_up, server.said()[-5000:]
    await running
    await watching
    grown = server.resident_bytes - before
    assert grown < GROWTH_BYTES, f"{grown >> 20} MiB more after {mutants} mutants"
    assert witness.came > 0
    assert "Traceback" not in server.said(), server.said()[-5000:]
    return siege


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-garbage-") as place, live_server(Path(place), SETTINGS) as server:
        siege = asyncio.run(besiege(server, arguments.seed, arguments.count))
    print(f"{siege.done} mutants, seed {arguments.seed}: {dict(siege.endings)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
