"""Connections: how many a second are taken of 10,000 that are offered, and the memory of those that do nothing."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Unit, interleaved
from bench.mqtt.link import PeerFailed
from bench.mqtt.load import Outcome
from bench.mqtt.meter import compared
from bench.mqtt.mqtt_speech import connect_packet, connected, connected_many
from bench.mqtt.peers import Broker, Start, running, start_mosquitto, start_penstock
from bench.mqtt.servers import Server

_OFFERED_A_SECOND, _ROUND_MS, _LEAST_MS = 10_000, 3_000, 200
# The backlog of a listening socket in mosquitto: a connection beyond it would wait a second for its next try.
_WAITING = 100
IDLE_CONNECTIONS = 10_000
# Ports of one address are not enough for 50,000 connections to one server.
_CONNECTIONS_AN_ADDRESS = 20_000
_CONNACK, _DISCONNECT = 0x20, b"\xe0\x00"
# Close with a reset: a closed connection would keep its port for a minute.
_LINGER = struct.pack("ii", 1, 0)
_STALLED_S = 10.0


class Connects:
    """Clients that connect, are answered, say goodbye and go; at most 100 wait for their answer at a time."""

    def __init__(self, server: Server, address: tuple[str, int]) -> None:
        self._server, self._address = server, address
        self._epoll = select.epoll()
        self._waiting: dict[int, tuple[socket.socket, bytes]] = {}
        self._greetings: list[bytes] = []

    def offered(self, connects: int, a_second: int) -> Outcome:
        """Until all are answered."""
        self._greetings = [connect_packet(f"visitor-{number}") for number in range(connects)]
        server_cpu, cpu, begun = self._server.cpu_seconds(), time.process_time(), time.monotonic()
        opened, answered, last = 0, 0, begun
        while answered < connects:
            due = min(connects, int((time.monotonic() - begun) * a_second) + 1)
            while opened < due and len(self._waiting) < _WAITING:
                self._open()
                opened += 1
            if done := self._turn():
                answered, last = answered + done, time.monotonic()
            elif time.monotonic() - last > _STALLED_S:
                raise PeerFailed(f"{answered:,} connections of {opened:,} were answered, and then no more")
        took_s, cpu = time.monotonic() - begun, time.process_time() - cpu
        self._epoll.close()
        return Outcome(connects, took_s, cpu, self._server.cpu_seconds() - server_cpu)

    def _open(self) -> None:
        client = socket.socket()
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        client.connect_ex(self._address)
        self._waiting[client.fileno()] = client, self._greetings.pop()
        self._epoll.register(client.fileno(), select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)

    def _turn(self) -> int:
        done = 0
        for descriptor, event in self._epoll.poll(0.001):
            client, greeting = self._waiting[descriptor]
            if event & select.EPOLLIN:
                self._leave(client)
                done += 1
            elif event & (select.EPOLLERR | select.EPOLLHUP):
                raise PeerFailed("the server refused a connection")
            elif greeting:
                client.send(greeting)
                self._waiting[descriptor] = client, b""
        return done

    def _leave(self, client: socket.socket) -> None:
        answer = client.recv(4096)
        if len(answer) < 4 or answer[0] != _CONNACK or answer[3]:
            raise PeerFailed(f"a connection was answered with {answer[:40]!r}")
        client.send(_DISCONNECT)
        del self._waiting[client.fileno()]
        client.close()


def run_connects(settings: Run) -> list[Comparison]:
    connects = _OFFERED_A_SECOND * settings.size(_ROUND_MS, _LEAST_MS) // 1000
    with running(settings.directory, start_penstock, start_mosquitto) as brokers:
        offered = partial(_connects, connects)
        return compared(settings, brokers, offered, f"a connect, {_OFFERED_A_SECOND:,} a second offered", {})


def _connects(connects: int, broker: Broker) -> Outcome:
    return Connects(broker.server, broker.address).offered(connects, _OFFERED_A_SECOND)


def run_idle(settings: Run) -> list[Comparison]:
    connections, fresh = settings.size(IDLE_CONNECTIONS), _directories(settings.directory)
    calls = {
        name: partial(bytes_a_connection, fresh, start, connections)
        for name, start in {"Penstock": start_penstock, "mosquitto": start_mosquitto}.items()
    }
    samples = interleaved(settings.rounds, calls)
    mine, other = (Series(name, taken, Unit.BYTES) for name, taken in samples.items())
    subject = Series(f"memory of an idle connection, {connections:,} of them", mine.samples, Unit.BYTES)
    if 0.0 in other.samples:
        return [Comparison(subject)]
    return [Comparison(subject, other, Ratio.COST)]


def _directories(parent: Path) -> Iterator[Path]:
    for number in count():
        directory = parent / str(number)
        directory.mkdir()
        yield directory


def bytes_a_connection(directories: Iterator[Path], start: Start, connections: int) -> float:
    """What a fresh server grows by for each of so many clients that are connected and silent; 0 if it is not there."""
    with running(next(directories), start) as brokers:
        return sum(_growth(broker, connections) / connections for broker in brokers)


def _growth(broker: Broker, connections: int) -> int:
    connected(broker.address, "first").close()
    before = broker.server.resident_bytes()
    links = []
    for place, first in enumerate(range(0, connections, _CONNECTIONS_AN_ADDRESS)):
        last = min(first + _CONNECTIONS_AN_ADDRESS, connections)
        names = [f"idle-{number}" for number in range(first, last)]
        links += connected_many(broker.address, names, source=f"127.0.0.{2 + place}")
    grown = broker.server.resident_bytes() - before
    for link in links:
        link.close()
    return grown


CONNECTS = Benchmark(
    "mqtt-connects", "10,000 connects a second offered: what is held, beside mosquitto", run_connects, syncs=False
)
IDLE = Benchmark("mqtt-connections", "memory of 10,000 idle connections, beside mosquitto", run_idle, syncs=False)
