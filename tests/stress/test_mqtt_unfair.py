"""Peers that take more than their share of a turn: others are served all the same."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from tests.support.live_server import LiveServer, live_server
from tests.support.mqtt_client import MqttClient

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import PubAck, Publish

pytestmark = pytest.mark.faults

CLIENTS, ROUNDS, PATIENCE_S = 10, 20, 60.0
Unfair = Callable[[socket.socket, threading.Event], None]


def _opened(server: LiveServer, name: str) -> MqttClient:
    client = MqttClient(server.address, Version.V5, name)
    client.connect()
    return client


def _packet(topic: str, qos: int, packet_id: int = 1, size: int = 256) -> bytes:
    packet = Publish(topic, bytes(size), qos, packet_id=packet_id if qos else 0)
    return bytes(encode(packet, Version.V5))


def floods(wire: socket.socket, over: threading.Event) -> None:
    """As fast as the server takes it."""
    some = _packet("$queue/flood", 0) * 200
    while not over.is_set():
        wire.sendall(some)


def never_reads(wire: socket.socket, over: threading.Event) -> None:
    """The answers to what it publishes lie about until nothing more fits."""
    number = 0
    while not over.is_set():
        number = number % 60_000 + 1
        wire.sendall(_packet("$queue/deaf", 1, number))


def sends_in_pieces(wire: socket.socket, over: threading.Event) -> None:
    data = _packet("$queue/pieces", 0, size=20_000)
    while not over.is_set():
        for at in range(0, len(data), 7):
            wire.sendall(data[at : at + 7])


def stops_in_the_middle(wire: socket.socket, over: threading.Event) -> None:
    wire.sendall(_packet("$queue/half", 1, size=60_000)[:-1])
    over.wait()


def sends_garbage(wire: socket.socket, over: threading.Event) -> None:
    wire.sendall(b"\x30\xff\xff\xff\xff\xff" * 1000)


def publishes_what_is_refused(wire: socket.socket, over: threading.Event) -> None:
    some = b"".join([_packet("$SYS/mine", 1, number) for number in range(1, 51)])
    while not over.is_set():
        wire.sendall(some)
        wire.recv(1 << 16)


@contextmanager
def at_it(server: LiveServer, unfair: Unfair, number: int) -> Iterator[None]:
    client, over = _opened(server, f"unfair-{number}"), threading.Event()
    wire = client.bare_socket
    wire.settimeout(None)

    def run() -> None:
        with suppress(OSError):
            unfair(wire, over)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        with suppress(OSError):
            wire.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)
        wire.close()


@pytest.mark.parametrize(
    "unfair",
    [floods, never_reads, sends_in_pieces, stops_in_the_middle, sends_garbage, publishes_what_is_refused],
)
def test_whoever_takes_more_than_a_share_keeps_nobody_else_from_being_served(tmp_path: Path, unfair: Unfair) -> None:
    with live_server(tmp_path / "server") as server, ExitStack() as stack:
        clients = [_opened(server, f"fair-{number}") for number in range(CLIENTS)]
        for client in clients:
            stack.callback(client.cut)
            client.publish("$queue/fair", b"first", 1)
            client.wait_at_most(PATIENCE_S)
        for number in range(3):
            stack.enter_context(at_it(server, unfair, number))
        for turn in range(ROUNDS):
            for client in clients:
                client.send(Publish("$queue/fair", b"%d" % turn, 1, packet_id=turn + 1))
            assert [client.expect(PubAck).packet_id for client in clients] == [turn + 1] * CLIENTS
        assert server.is_up
