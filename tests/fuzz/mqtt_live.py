"""Mutated packets in sessions through a live server: it stays up, closes what is malformed and nothing else, its
memory returns, and a client beside all that notices nothing.

python -m tests.fuzz.mqtt_live --count 100000 --seed 1"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.packets import TOPICS, mutate_stream, seed_packet
from tests.support.live_server import LiveServer, live_server
from tests.support.mqtt_client import MqttClient, messages_of
from tests.support.mqtt_wire import packet, short, string, user_property, variable

from penstock.codecs.mqtt.decode import Decoder, Need
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.errors import PacketError
from penstock.codecs.mqtt.kinds import Sender, Version
from penstock.codecs.mqtt.packets import Connect, Disconnect, PubAck, Publish, Subscribe, Subscription
from penstock.codecs.mqtt.state import SENT_BY

# Sessions, queues and retained messages of mutants are few or end soon: what stays in memory is a leak.
SETTINGS = ("mqtt.max_session_expiry=1s", "broker.max_auto_queues=20", "mqtt.sys_interval=1s", "storage.disk_reserve=0")
AT_ONCE = 32
# Caches of what was written lately go on filling: measured, 34 MiB in 360,000 mutants, most of it in the first 100,000.
GROWTH_BYTES = 64 << 20
_PART = 20_000
_DEADLINE_S = 30.0
_MUTATED_CONNECTS = 0.15
_MOST_PACKETS = 12
_METHOD = b"SCRAM-SHA-256"
# Mutants have other topics and, all but one in 65,535, other identifiers.
_LAST = Subscribe(65_535, (Subscription("the/last"),))
_ANSWERS = (b"\x90\x03\xff\xff\x00", b"\x90\x04\xff\xff\x00\x00")
_FILTERS = (b"a", b"devices/#", b"+/cellar/+", b"#", b"$share/g/devices/#", b"$queue/jobs", b"$queue/jobs/#", b"$SYS/#")


Report = Callable[[str], None]


# What is sent


@dataclass(frozen=True)
class Script:
    """What one connection sends, from CONNECT on."""

    data: bytes
    mutants: int
    """packets that were changed, the last of which may be the end of it"""
    is_refused: bool
    """the server has to close"""
    asks_last: bool
    """the last packet is a request that has to be answered: everything before it was looked at then"""


def session_script(rng: random.Random) -> Script:
    """As many mutants as go through: the first one that has to be refused ends it."""
    version, stream = rng.choice((4, 5)), Reading()
    connect = _connect(rng, version)
    data = mutate_stream(rng, connect) if rng.random() < _MUTATED_CONNECTS else connect
    mutants, goes_on = int(data != connect), stream.goes_on(data)
    left = 1 if _METHOD in data else rng.randint(1, _MOST_PACKETS)
    while goes_on and left:
        part = seed_packet(rng, version) if rng.random() < 0.7 else _request(rng, version)
        mutant = mutate_stream(rng, part)
        data, mutants, left = data + mutant, mutants + (mutant != part), left - 1
        goes_on = stream.goes_on(mutant)
    if goes_on:
        data += (last := encode(_LAST, Version(version)))
        stream.goes_on(last)
    return Script(data, mutants, stream.is_refused, stream.asks_last)


@dataclass
class Reading:
    """What a server has to make of it, by our own codec, which other tests hold against a reference."""

    is_refused: bool = False
    asks_last: bool = False
    _decoder: Decoder = field(default_factory=Decoder)
    _is_first: bool = True

    def goes_on(self, data: bytes) -> bool:
        """False if the connection ends within it."""
        self._decoder.receive(data)
        try:
            while (found := self._decoder.next_packet()) is not Need.DATA:
                if isinstance(found, Connect) is not self._is_first or found.type not in SENT_BY[Sender.CLIENT]:
                    self.is_refused = True
                if self.is_refused or isinstance(found, Disconnect):
                    return False
                self._is_first, self.asks_last = False, found == _LAST
        except PacketError:
            self.is_refused = True
        return not self.is_refused


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
    b"\x15" + string(_METHOD) + b"\x16" + string(b"n,,n=user,r=fyko"),
]


def _request(rng: random.Random, version: int) -> bytes:
    filters = rng.sample(_FILTERS, rng.randint(1, 3))
    packet_id = short(rng.randint(1, 65535))
    if rng.random() < 0.2:
        return packet(0xA2, packet_id + (b"\0" if version == 5 else b"") + b"".join(map(string, filters)))
    named = user_property(b"consumer-group", b"g") + user_property(b"ack-mode", b"puback") + b"\x0b\x07"
    carried = _properties(named if rng.random() < 0.3 else b"") if version == 5 else b""
    return packet(0x82, packet_id + carried + b"".join(string(each) + bytes([rng.randrange(3)]) for each in filters))


# How it is answered


@dataclass
class Siege:
    """Many connections at a time against one server."""

    address: tuple[str, int]
    rng: random.Random
    wanted: int
    """mutants"""
    mutants: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    """of connections"""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._attack())

    async def _attack(self) -> None:
        while self.mutants < self.wanted:
            script = session_script(self.rng)
            try:
                ending = await asyncio.wait_for(self._one(script), _DEADLINE_S)
            except TimeoutError:
                raise AssertionError(f"the server keeps a connection open that sent {script.data.hex()}") from None
            self.endings[ending] += 1
            # Of a connection that ended early only the first is sure to have been looked at.
            self.mutants += min(script.mutants, 1) if ending in ("early", "reset") else script.mutants

    async def _one(self, script: Script) -> str:
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            for piece in self._pieces(script.data):
                writer.write(piece)
                await writer.drain()
            if not script.is_refused:
                writer.write_eof()
            came = await reader.read()
        except OSError:
            # Reset, or gone before the end of our side was said, which is no ConnectionError.
            return "reset"
        finally:
            writer.transport.abort()
        if script.is_refused:
            return "refused"
        return "early" if script.asks_last and not any(answer in came for answer in _ANSWERS) else "taken"

    def _pieces(self, data: bytes) -> list[bytes]:
        if self.rng.random() < 0.8 or not data:
            return [data]
        place = self.rng.randrange(len(data))
        return [data[:place], data[place:]]


def besiege_alone(address: tuple[str, int], seed: int, mutants: int) -> tuple[int, Counter[str]]:
    """A process of its own: how many mutants, and how connections ended."""
    siege = Siege(address, random.Random(seed), mutants)
    asyncio.run(siege.run())
    return siege.mutants, siege.endings


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


@dataclass
class Outcome:
    mutants: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    """of connections"""
    grown_bytes: int = 0
    """by the end, since the first part"""


async def besiege(
    server: LiveServer, seed: int, mutants: int, processes: int = 1, report: Report = lambda text: None
) -> Outcome:
    """AssertionError if the server dies, keeps a malformed connection, disturbs the witness, or grows."""
    witness, outcome = Witness(server.address), Outcome()
    watching = asyncio.create_task(witness.watch())
    running = asyncio.create_task(_in_parts(server, seed, mutants, processes, outcome, report))
    await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
    witness.is_over = True
    assert server.is_up, server.said()[-5000:]
    await running
    await watching
    assert outcome.grown_bytes < GROWTH_BYTES, f"{outcome.grown_bytes >> 20} MiB more after {mutants} mutants"
    assert witness.came > 0
    assert "Traceback" not in server.said(), server.said()[-5000:]
    return outcome


async def _in_parts(
    server: LiveServer, seed: int, mutants: int, processes: int, outcome: Outcome, report: Report
) -> None:
    """Each process and part has a seed of its own. Growth counts from the end of the first part."""
    loop, seeds, before_bytes = asyncio.get_running_loop(), count(seed * 1000), 0
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        while outcome.mutants < mutants and server.is_up:
            part = min(_PART, mutants - outcome.mutants) // processes + 1
            sent = [
                loop.run_in_executor(pool, besiege_alone, server.address, next(seeds), part) for _ in range(processes)
            ]
            for some in await asyncio.gather(*sent):
                outcome.mutants += some[0]
                outcome.endings += some[1]
            await asyncio.to_thread(_forget_retained, server.address)
            before_bytes = before_bytes or server.resident_bytes
            report(f"{outcome.mutants} mutants, {server.resident_bytes >> 20} MiB")
    outcome.grown_bytes = server.resident_bytes - before_bytes


def _forget_retained(address: tuple[str, int]) -> None:
    """Mutated topics are ever new ones, and each subscriber to `#` is sent what was retained for all of them."""
    with (
        closing(MqttClient(address, Version.V5, "finds", _DEADLINE_S)) as finder,
        closing(MqttClient(address, Version.V5, "sweeps", _DEADLINE_S)) as sweeper,
    ):
        for client in (finder, sweeper):
            client.connect()
        finder.subscribe("#")
        for message in messages_of(finder.came()):
            if message.retain:
                sweeper.publish(message.topic, b"", 1, retain=True)


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-garbage-") as place, live_server(Path(place), SETTINGS) as server:
        begun = time.monotonic()
        found = asyncio.run(besiege(server, arguments.seed, arguments.count, arguments.processes, _say))
        seconds = time.monotonic() - begun
    connections = f"{found.endings.total()} connections {dict(found.endings)}"
    print(
        f"{found.mutants} mutants, seed {arguments.seed}, in {seconds:.0f} s, {found.grown_bytes >> 20} MiB more: "
        f"{connections}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
