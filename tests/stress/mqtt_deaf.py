"""Clients that cost a server memory and give nothing: subscribers that never read, topics with aliases as long as they
may be, filters as long as they may be or thousands of short ones, wills, messages that are never released, packets that
never end. The server stays within its budget, and serves others.

python -m tests.stress.mqtt_deaf --count 500"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.support.live_server import LiveServer, live_server
from tests.support.mqtt_client import MqttClient

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Publish, Subscribe, Subscription, Will
from penstock.codecs.mqtt.properties import Properties

MEMORY_BYTES = 64 << 20
PAYLOAD = bytes(60_000)
# What everyone shares of batches that were written lately, the interpreter's ups and downs, and 30 KiB a connection.
SLACK_BYTES, CONNECTION_BYTES = 96 << 20, 64 << 10
# Of aliases and of filters, as the server bounds them for one client.
HOARDED_BYTES = 128 << 10
LONG = "x" * 60_000
WILL = Will("t", bytes(60_000))


def exhaust(place: Path, count: int) -> str:
    """A seventh of `count` each of those that hoard, the rest are deaf."""
    settings = [f"mqtt.memory_size={MEMORY_BYTES}", "mqtt.max_subscription_size=128KiB", "storage.disk_reserve=0"]
    with live_server(place, settings) as server, ExitStack() as opened:
        quick = _connected(server, opened, "quick")
        quick.subscribe("beside", qos=1)
        publisher, before_bytes = _connected(server, opened, "publisher"), server.resident_bytes
        for number in range(count):
            _burden(_connected(server, opened, f"c{number}", WILL if number % 7 == 5 else None), number)
        # Each deaf one could take 4 MiB by itself.
        for _ in range(100):
            publisher.publish("deaf", PAYLOAD, 1)
        publisher.publish("beside", b"served", 1)
        assert quick.expect_message().payload == b"served"
        grown, allowed = server.resident_bytes - before_bytes, _allowed_bytes(count)
        assert grown <= allowed, f"grew by {grown >> 20} MiB, {allowed >> 20} were allowed"
        return f"{count} that give nothing cost {grown >> 20} MiB of {allowed >> 20}"


def _allowed_bytes(count: int) -> int:
    return MEMORY_BYTES + SLACK_BYTES + count * (CONNECTION_BYTES + HOARDED_BYTES // 2)


def _connected(server: LiveServer, opened: ExitStack, name: str, will: Will | None = None) -> MqttClient:
    client = MqttClient(server.address, Version.V5, name)
    opened.callback(client.close)
    client.connect(will=will)
    return client


def _burden(client: MqttClient, number: int) -> None:
    with suppress(OSError):  # whoever takes too much may be cut off
        match number % 7:
            case 0:
                for alias in range(1, 10):
                    client.send(Publish(f"{alias}/{LONG}", b"", properties=Properties(topic_alias=alias)))
            case 1:
                for each in range(1, 10):
                    client.send(Subscribe(each, (Subscription(f"{each}/{LONG}"),)))
            case 2:
                client.send_raw(b"\x30\x80\x80\x80\x02" + bytes(200_000))
            case 3:
                for each in range(1, 11):
                    client.send(Subscribe(each, tuple(Subscription(f"{each}/{place}") for place in range(500))))
            case 4:
                for first in range(1, 10_001, 100):
                    publishes = [Publish("t", b"", 2, packet_id=each) for each in range(first, first + 100)]
                    client.send_raw(b"".join([encode(publish, Version.V5) for publish in publishes]))
            case 5:
                return
            case _:
                client.subscribe("deaf", qos=0)
                client.bare_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    with tempfile.TemporaryDirectory() as directory:
        print(exhaust(Path(directory), parser.parse_args(arguments).count))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
