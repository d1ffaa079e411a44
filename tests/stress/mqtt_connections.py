"""Idle connections: what each costs the server, beside mosquitto.

python -m tests.stress.mqtt_connections --count 10000"""

from __future__ import annotations

import argparse
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import servers
from tests.support.live_server import live_server
from tests.support.mqtt_client import MqttClient

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Connect, PubAck, Publish

# Of one address there are fewer ports than that.
_CONNECTIONS_AN_ADDRESS = 20_000
_SPARE_FILES = 200
_PING, _PONG = b"\xc0\x00", b"\xd0\x00"


class CannotOpen(Exception):
    """This machine does not allow so many; the text says why."""


@dataclass(frozen=True)
class Cost:
    name: str
    connections: int
    bytes_each: int
    opened_s: float
    """all of them, one after the other, to the last CONNACK"""

    def __str__(self) -> str:
        opened = f"{self.connections / self.opened_s:.0f} opened a second"
        return f"{self.name}: {self.connections} idle connections, {self.bytes_each} bytes each, {opened}"


def allow_files(count: int) -> bool:
    """Whether this process, and those it starts, may have so many open. Root may allow itself more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return True
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(hard, count)))
    except (ValueError, PermissionError):
        return False
    return True


@contextmanager
def idle_connections(address: tuple[str, int], name: str, count: int) -> Iterator[list[socket.socket]]:
    """Logged in, then silent. All of them answer a ping in the end."""
    with ExitStack() as opened:
        found: list[socket.socket] = []
        for number in range(count):
            source = (f"127.0.0.{1 + number // _CONNECTIONS_AN_ADDRESS}", 0)
            found.append(opened.enter_context(socket.create_connection(address, 30.0, source)))
            found[-1].sendall(encode(Connect(Version.V3_1_1, f"{name}-{number}"), Version.V3_1_1))
        for each in found:
            assert each.recv(4) == b"\x20\x02\x00\x00"
        yield found
        for each in found:
            each.sendall(_PING)
        for each in found:
            assert each.recv(2) == _PONG


def resident_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


def cost(name: str, pid: int, address: tuple[str, int], count: int) -> Cost:
    """After some that are not counted: buffers and pools that all share are there then."""
    with idle_connections(address, "first", 50):
        before, begun = resident_bytes(pid), time.monotonic()
        with idle_connections(address, "idle", count):
            after, opened_s = resident_bytes(pid), time.monotonic() - begun
            _check_served(address)
    return Cost(name, count, (after - before) // count, opened_s)


def _check_served(address: tuple[str, int]) -> None:
    with closing(MqttClient(address, Version.V5, "other")) as other:
        other.connect()
        other.subscribe("other", qos=1)
        other.send(Publish("other", b"is served", 1, packet_id=1))
        came = [other.receive(), other.receive()]
        assert {type(packet) for packet in came} == {PubAck, Publish}, came


def costs(place: Path, count: int) -> list[Cost]:
    """Penstock's, and mosquitto's where it is installed."""
    if not allow_files(count + _SPARE_FILES):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        raise CannotOpen(
            f"{count} connections need as many open files; the hard limit is {hard} (ulimit -Hn), and to raise it "
            f"takes CAP_SYS_RESOURCE, which this process does not have"
        )
    with live_server(place / "penstock") as live:
        found = [cost("penstock", live.process.pid, live.address, count)]
    (place / "mosquitto").mkdir()
    try:
        with servers.mosquitto(place / "mosquitto") as other:
            found.append(cost("mosquitto", other.pid, other.address, count))
    except servers.NotInstalled as missing:
        print(f"NOT TESTED HERE: idle connections of mosquitto ({missing})", file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    with tempfile.TemporaryDirectory(prefix="penstock-connections-") as place:
        print(*costs(Path(place), parser.parse_args().count), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
