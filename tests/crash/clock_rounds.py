"""A real server whose wall clock is set, by hours or weeks, while messages are leased, retained, or wait for a session:
none comes again too early, none stays away, none expires. Dead letters say when they became some, and epochs stay
known. Leases and epochs over a kill too."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.crash.rounds import Report
from tests.support.faults import compiled, kill, wait_until
from tests.support.http_client import HttpClient
from tests.support.live_server import LiveServer, live_server
from tests.support.mqtt_client import MqttClient

from penstock.client.flight import FlightClient
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Publish
from penstock.codecs.mqtt.properties import Properties

_SOURCE = Path(__file__).parent / "clock_shim.c"
_LEASE_S = 3.0
_JUMPS_S = (-40 * 86_400, -3 * 3600, -3600, 3600, 3 * 3600, 40 * 86_400)
_EXPIRY_S = 600
_QUERY = "query"
_FOR_EVER = {"limits": {"message_ttl": "none"}, "retention": {"time": "none"}}


@dataclass
class WallClock:
    """Of a process that runs with `variables`."""

    path: Path
    offset_s: int = 0

    def __post_init__(self) -> None:
        self.set(0)

    @property
    def variables(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(compiled(_SOURCE)), "CLOCK_FILE": str(self.path)}

    def set(self, jump_s: int) -> None:
        self.offset_s += jump_s
        if not self.path.exists():
            self.path.write_bytes(struct.pack("<q", self.offset_s))
        with self.path.open("r+b") as file:
            file.write(struct.pack("<q", self.offset_s))


@contextmanager
def _serving(place: Path, clock: WallClock) -> Iterator[tuple[LiveServer, HttpClient]]:
    (place / "ready.json").unlink(missing_ok=True)
    settings = ("listeners.mqtt_ws=null", "listeners.flight.port=0", "storage.disk_reserve=0")
    with live_server(place, settings, variables=clock.variables) as server:
        http = HttpClient(("127.0.0.1", server.ports["http"]))
        try:
            yield server, http
        finally:
            http.close()


def _jumps(http: HttpClient) -> float:
    lines = http.get("/metrics").body.decode().splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith("penstock_clock_jumps_total"))


def _await_jump(http: HttpClient, before: float) -> None:
    wait_until(lambda: _jumps(http) > before, "the jump to be seen")


def clock_rounds(place: Path, seed: int, rounds: int, report: Report) -> int:
    """How often the clock was set."""
    chance, clock, done = random.Random(seed), WallClock(place / "clock"), 0
    while done < rounds:
        with _serving(place, clock) as (server, http):
            if not done:
                settings = {"partitions": 1, "retry_policy": {"initial_backoff": 0, "max_retries": 1000}, **_FOR_EVER}
                assert http.post("queues", {"name": "q", **settings}).status == 201
            _keep_messages(server, done)
            http.publish("q", str(done))
            begun_s = time.monotonic()
            [message] = http.receive("q", visibility=_LEASE_S)
            before = _jumps(http)
            clock.set(chance.choice(_JUMPS_S))
            _await_jump(http, before)
            _are_kept(server, done)
            _commit_epoch(server, done)
            _dies(http, clock)
            http.publish("beside", "once this is on disk, so are the leases as they are by the new clock")
            is_killed = chance.random() < 0.5
            if not is_killed:
                _comes_again(http, message["text"], begun_s)
            else:
                kill(server.process)
        if is_killed:
            with _serving(place, clock) as (server, http):
                _comes_again(http, message["text"], begun_s)
                _knows_epoch(server, done)
        done += 1
        report(f"{done} jumps, the clock is off by {clock.offset_s // 3600} h")
    return done


def _keep_messages(server: LiveServer, number: int) -> None:
    """One is retained and one waits for a session, both with little time."""
    client = _lasting(server)
    client.subscribe("t", qos=1)
    _leave(client)
    publisher = MqttClient(server.address, Version.V5, "p")
    publisher.connect()
    for topic in ("t", "retained"):
        expiring = Properties(message_expiry_interval_s=_EXPIRY_S)
        publisher.publish(topic, b"%d" % number, 1, retain=topic == "retained", properties=expiring)
    _leave(publisher)


def _are_kept(server: LiveServer, number: int) -> None:
    client, reader = _lasting(server), MqttClient(server.address, Version.V5, "reader")
    assert client.connack.session_present
    waited = client.expect(Publish)
    client.acknowledge(waited)
    reader.connect()
    reader.subscribe("retained")
    for message in (waited, reader.expect(Publish)):
        left_s = message.properties.message_expiry_interval_s or 0
        assert message.payload == b"%d" % number and left_s > _EXPIRY_S // 2, message
    _leave(client)
    _leave(reader)


def _lasting(server: LiveServer) -> MqttClient:
    client = MqttClient(server.address, Version.V5, "session")
    client.connect(clean=False, properties=Properties(session_expiry_interval_s=_EXPIRY_S))
    return client


def _leave(client: MqttClient) -> None:
    client.disconnect()
    client.close()


def _flight(server: LiveServer) -> FlightClient:
    return FlightClient(f"grpc://127.0.0.1:{server.ports['flight']}")


def _commit_epoch(server: LiveServer, epoch: int) -> None:
    with _flight(server) as client:
        client.commit(_QUERY, epoch, [], queues=["q"])


def _knows_epoch(server: LiveServer, epoch: int) -> None:
    with _flight(server) as client:
        assert epoch in client.committed(_QUERY)


def _dies(http: HttpClient, clock: WallClock) -> None:
    """A message is rejected, and its dead letter says that it was now."""
    http.publish("dying", "x")
    [message] = http.receive("dying")
    assert http.post("messages/reject", {"receipts": [message["receipt"]]}).status == 200
    wait_until(lambda: http.get("queues/dying/dlq").json["items"], "the dead letter")
    moved_s, now_s = http.get("queues/dying/dlq").json["items"][-1]["moved_ms"] / 1000, time.time() + clock.offset_s
    assert abs(moved_s - now_s) < 60, f"a dead letter of {moved_s} at {now_s}"


def _comes_again(http: HttpClient, text: str, begun_s: float) -> None:
    """When its lease is over, and not before; the patience of a receive is far below every jump."""
    found = http.receive("q", wait="25s") or http.receive("q", wait="25s")
    took_s = time.monotonic() - begun_s
    assert [each["text"] for each in found] == [text], f"{found} after {took_s:.1f} s"
    assert took_s >= _LEASE_S, f"the lease was over after {took_s:.1f} s"
    answer = http.post("messages/ack", {"receipts": [found[0]["receipt"]]})
    assert answer.status == 200, answer.json
