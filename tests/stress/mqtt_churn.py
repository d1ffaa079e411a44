"""Connects that end without a DISCONNECT, each of another client: what the server needs for them it needs again for the
next ones, and no more.

python -m tests.stress.mqtt_churn --count 10000"""

from __future__ import annotations

import argparse
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.live_server import LiveServer, live_server

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Connect, Publish, Subscribe, Subscription, Will

_RESET = b"\x01\0\0\0\0\0\0\0"
_V5 = Version.V5
TIMES = 4
"""as many again, after those that warm up"""
# An interpreter's own to and fro; a leak of an object a connect is more at 2,000 connects: 10 to 20 MB of 5,000 it was.
MOST_BYTES = 3 << 20


def _closed(opened: socket.socket, name: str) -> None:
    _connect(opened, Connect(_V5, name))


def _reset(opened: socket.socket, name: str) -> None:
    _connect(opened, Connect(_V5, name))
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _busy(opened: socket.socket, name: str) -> None:
    """With a subscription, a publish that is answered, one that is under way, and half a packet."""
    _connect(opened, Connect(_V5, name))
    topic = f"of/{name[-2:]}"
    opened.sendall(encode(Subscribe(1, (Subscription(topic, 2),)), _V5))
    opened.sendall(
        encode(Publish(topic, b"x" * 100, 1, packet_id=2), _V5) + encode(Publish(topic, b"y", 2, packet_id=3), _V5)
    )
    opened.recv(4096)
    opened.sendall(b"\x30\x20half")
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _with_will(opened: socket.socket, name: str) -> None:
    _connect(opened, Connect(_V5, name, will=Will(f"gone/{name[-2:]}", b"gone", 1)))


def _silent(opened: socket.socket, name: str) -> None:
    """Never said who it is."""
    opened.sendall(b"\x10")


def _old(opened: socket.socket, name: str) -> None:
    opened.sendall(encode(Connect(Version.V3_1_1, name), Version.V3_1_1))
    assert opened.recv(4) == b"\x20\x02\x00\x00"


WAYS: tuple[Callable[[socket.socket, str], None], ...] = (_closed, _reset, _busy, _with_will, _silent, _old)


def _connect(opened: socket.socket, packet: Connect) -> None:
    opened.sendall(encode(packet, _V5))
    assert opened.recv(4096)[0] == 0x20


def come_and_go(server: LiveServer, first: int, count: int) -> None:
    for number in range(first, first + count):
        with socket.create_connection(server.address, 30.0) as opened:
            WAYS[number % len(WAYS)](opened, f"client-{number}")


def churn(place: Path, count: int) -> str:
    """AssertionError if the memory of the server grows with connects after the first `count`."""
    with live_server(place / "server", ["log.level=error"]) as server:
        come_and_go(server, 0, count)
        sizes = [server.resident_bytes]
        for time in range(1, TIMES + 1):
            come_and_go(server, time * count, count)
            sizes.append(server.resident_bytes)
    shown = " -> ".join(f"{size / 1e6:.1f}" for size in sizes)
    # The last two rounds, so that what is only reached late counts as warming up.
    assert sizes[-1] - sizes[-3] <= MOST_BYTES, f"{shown} MB, after each {count} connects"
    return f"{(TIMES + 1) * count} connects that ended without DISCONNECT: {shown} MB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    with tempfile.TemporaryDirectory(prefix="penstock-churn-") as place:
        print(churn(Path(place), parser.parse_args().count))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
