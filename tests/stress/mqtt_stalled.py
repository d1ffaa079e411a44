"""Subscribers that stop reading for a while, of each kind: the server's memory stays within their limits, others notice
nothing, and when they read again each gets everything, or what it lost is counted, or it was put out.

python -m tests.stress.mqtt_stalled --seconds 90"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.live_server import LiveServer, live_server
from tests.support.mqtt_client import ConnectionEnded, MqttClient
from tests.support.mqtt_gateway import user

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Disconnect, PubAck, Publish
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode

OUTBOUND_BYTES, QUEUED_BYTES, QUEUED = 1 << 20, 2 << 20, 500
SETTINGS = (
    f"mqtt.max_outbound_size={OUTBOUND_BYTES}",
    f"mqtt.max_queued_size={QUEUED_BYTES}",
    f"mqtt.max_queued_messages={QUEUED}",
    "storage.disk_reserve=0",
)
PAYLOAD = bytes(10_000)
# 6 MB a second at most: in 5 s far more than may lie in memory, and than sockets hold.
AT_ONCE, PAUSE_S = 60, 0.1
SUBSCRIBERS = 3
# What everyone shares of batches that were written or read lately: `ShardOptions.recent_bytes`, `StoredCache`.
CACHES_BYTES = 128 << 20
# The interpreter's own ups and downs, what sockets and the allocator hold.
SLACK_BYTES = 48 << 20
MOST_GROWN_BYTES = SUBSCRIBERS * (OUTBOUND_BYTES + QUEUED_BYTES) + CACHES_BYTES + SLACK_BYTES
TOPIC, QUEUE = "to/stalled", "$queue/stalled"


@dataclass
class Stall:
    server: LiveServer
    opened: ExitStack
    sent: int = 0
    grown_bytes: int = 0
    _before_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.quick = self._connected("at most once", 0)
        self.lasting = self._connected("lasting", 1, expiry_s=3600)
        self.worker = self._connected("worker", 1, QUEUE, user(consumer_group="g", ack_mode="puback"))
        self.beside = self._connected("beside", 0, "beside/it")
        self.publisher = self._connected("publisher")
        self._before_bytes = self.server.resident_bytes

    def _connected(
        self, name: str, qos: int = 0, filter: str = TOPIC, terms: Properties = NO_PROPERTIES, *, expiry_s: int = 0
    ) -> MqttClient:
        client = MqttClient(self.server.address, Version.V5, name)
        self.opened.callback(client.close)
        wanted = Properties(session_expiry_interval_s=expiry_s) if expiry_s else NO_PROPERTIES
        assert not client.connect(clean=not expiry_s, properties=wanted).reason.is_refusal
        if name != "publisher":
            [reason] = client.subscribe(filter, qos=qos, properties=terms)
            assert not reason.is_refusal, reason
        return client

    def last(self, seconds: float) -> None:
        """Publish for so long; after each handful somebody else gets what it should."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._publish_some()
            self.publisher.publish("beside/it", b"%d" % self.sent, 0)
            assert self.beside.expect_message().payload == b"%d" % self.sent
            self.grown_bytes = max(self.grown_bytes, self.server.resident_bytes - self._before_bytes)
            time.sleep(PAUSE_S)

    def _publish_some(self) -> None:
        """To topic and queue, taken by the server."""
        for _ in range(AT_ONCE):
            self.sent += 1
            for place, topic in enumerate((TOPIC, QUEUE)):
                packet_id = (2 * self.sent + place) % 60_000 + 1
                self.publisher.send(Publish(topic, b"%d " % self.sent + PAYLOAD, 1, packet_id=packet_id))
        for _ in range(2 * AT_ONCE):
            assert not self.publisher.expect(PubAck).reason.is_refusal

    # Afterwards

    def check(self) -> str:
        assert self.grown_bytes < MOST_GROWN_BYTES, f"{self.grown_bytes >> 20} MiB more"
        again = self.read_all(self.worker)
        kept = self._read_to_the_end(self.lasting)
        quick = self._read_to_the_end(self.quick)
        assert quick == sorted(set(quick)) and kept == sorted(set(kept))
        lost = 2 * self.sent - len(quick) - len(kept)
        assert self._dropped() == lost, "what was lost is not what was counted"
        return (
            f"{self.sent} messages each: {len(quick)} to QoS 0, {len(kept)} to a session, all to a worker and {again} "
            f"again; {self.grown_bytes >> 20} MiB more at most"
        )

    def read_all(self, client: MqttClient) -> int:
        """Every message; how many came again, because nothing was heard of them for longer than the queue's
        `delivery_timeout`. The oldest of those waits for its backoff."""
        client.wait_at_most(60.0)
        missing, again = set(range(1, self.sent + 1)), 0
        while missing:
            number = _number(client.expect_message())
            again += number not in missing
            missing.discard(number)
        return again

    def _read_to_the_end(self, client: MqttClient) -> list[int]:
        """All that comes before a message that is published now."""
        found: list[int] = []
        while came := [packet for packet in client.came() if isinstance(packet, Publish)]:
            for message in came:
                client.acknowledge(message)
            found += map(_number, came)
        return found

    def _dropped(self) -> int:
        self.beside.subscribe("$SYS/broker/messages/dropped")
        return int(self.beside.expect_message().payload)


def _number(message: Publish) -> int:
    return int(message.payload.split(b" ")[0])


def stall(place: Path, seconds: float) -> str:
    """What it saw, in a line; AssertionError for what must not be."""
    settings = [*SETTINGS, "mqtt.sys_interval=1s"]
    with live_server(place / "server", settings) as server, ExitStack() as opened:
        run = Stall(server, opened)
        run.last(seconds)
        return run.check()


def put_out(place: Path, seconds: float) -> str:
    """The same where the policy is to put out whoever is over its limit."""
    with live_server(place / "server", [*SETTINGS, "mqtt.queued_policy=disconnect"]) as server, ExitStack() as opened:
        run = Stall(server, opened)
        run.last(seconds)
        assert run.grown_bytes < MOST_GROWN_BYTES, f"{run.grown_bytes >> 20} MiB more"
        count = _read_until_put_out(run.lasting)
        run.read_all(run.worker)
        return f"put out after {count} of {run.sent} messages"


def _read_until_put_out(client: MqttClient) -> int:
    """It may be told why, if it had room for that."""
    found: list[int] = []
    try:
        while isinstance(packet := client.receive(), Publish):
            found.append(_number(packet))
        assert isinstance(packet, Disconnect) and packet.reason is ReasonCode.QUOTA_EXCEEDED, packet
    except ConnectionEnded:
        pass
    assert found == list(range(1, len(found) + 1))
    return len(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=90.0)
    seconds = parser.parse_args().seconds
    for run in (stall, put_out):
        with tempfile.TemporaryDirectory(prefix="penstock-stalled-") as place:
            print(run(Path(place), seconds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
