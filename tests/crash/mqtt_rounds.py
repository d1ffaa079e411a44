"""Load over MQTT, crash, again, and in the end a look at all that the clients saw."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.mqtt_clients import Publisher, Subscriber, consumers, publishers, subscribers
from tests.crash.mqtt_server import CONFIGURATION
from tests.crash.rounds import IMAGE_BYTES, Report
from tests.support.faults import PATIENCE_S, Image, kill, mounted, python, stopped
from tests.support.mqtt_client import MqttClient, messages_of
from tests.support.mqtt_history import Findings, History
from tests.support.mqtt_load import Place, reached
from tests.support.queue_history import require

from penstock.codecs.mqtt.kinds import Version

# A subscriber that is still without a message then never gets it.
_DRAINED_S = 40.0


@dataclass
class MqttFire:
    """A server that is started and killed, and clients that live on."""

    place: Path
    seed: int
    arguments: tuple[str, ...] = ()
    history: History = field(default_factory=History)
    publishers: list[Publisher] = field(default_factory=list)
    receivers: list[Subscriber] = field(default_factory=list)
    _clients: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = probe.getsockname()
        self.load = Place(address, random.Random(self.seed))
        (self.place / "penstock.yaml").write_text(CONFIGURATION)

    @property
    def errors(self) -> Path:
        return self.place / "errors"

    @property
    def _ready(self) -> Path:
        return self.place / "ready.json"

    # The server

    def start(self, directory: Path) -> subprocess.Popen[bytes]:
        self._ready.unlink(missing_ok=True)
        command: list[str | Path] = ["-m", "tests.crash.mqtt_server", *self.arguments, "serve", "--data", directory]
        command += ["-c", self.place / "penstock.yaml", "--ready-file", self._ready]
        port = f"listeners.mqtt.port={self.load.address[1]}"
        return python(*command, "--set", port, errors=self.errors)

    def crash(self, process: subprocess.Popen[bytes]) -> None:
        self.load.crashes += 1
        self.history.crashes += 1
        kill(process)

    async def until_ready(self, process: subprocess.Popen[bytes]) -> None:
        await self.until(process, self._ready.exists, "ready")

    async def until_events(self, process: subprocess.Popen[bytes], count: int) -> None:
        wanted = self.history.events + count
        await self.until(process, lambda: self.history.events >= wanted, f"{count} more events")

    async def until(self, process: subprocess.Popen[bytes], holds: Callable[[], bool], what: str) -> None:
        is_so = await reached(self.load, lambda: process.poll() is not None or holds(), PATIENCE_S)
        assert process.poll() is None, self.errors.read_text()[-5000:]
        assert is_so, f"not {what} after {PATIENCE_S} s"

    # The clients

    async def begin(self, process: subprocess.Popen[bytes]) -> None:
        """Nothing is published before everybody is subscribed: all that is published is for all of them."""
        await self.until_ready(process)
        self.receivers = [*subscribers(self.load, self.history), *consumers(self.load, self.history)]
        self._clients = [asyncio.create_task(client.live()) for client in self.receivers]
        await self.until(process, lambda: all(each.is_subscribed for each in self.receivers), "subscribed")
        self.publishers = publishers(self.load, self.history)
        self._clients += [asyncio.create_task(client.live()) for client in self.publishers]

    async def drain(self, process: subprocess.Popen[bytes]) -> Findings:
        await self.until_ready(process)
        for each in self.publishers:
            each.is_finishing = True
        for receiver in self.receivers:
            receiver.stays = True
        await self._until_all_came(process)
        for each in self.publishers:
            each.publish_last()
        await self._until_all_came(process)
        self.load.is_over = True
        for client in self._clients:
            client.cancel()
        await asyncio.wait(self._clients)
        await asyncio.to_thread(self.look_at_states)
        return self.history.check()

    async def _until_all_came(self, process: subprocess.Popen[bytes]) -> None:
        await self.until(process, lambda: all(each.is_done for each in self.publishers), "answered")
        history, known = self.history, list(self.history.receivers.values())
        await reached(self.load, lambda: not any(map(history.missing, known)), _DRAINED_S)

    def look_at_states(self) -> None:
        """What is retained is the last that was acknowledged, or one that was sent after it."""
        states = {topic: numbers for each in self.publishers for topic, numbers in each.states.items()}
        found = self._states()
        for topic, (acknowledged, sent) in states.items():
            allowed = [b"" if number % 2 else b"%d" % number for number in range(acknowledged, sent + 1)]
            there = found.pop(topic, b"")
            require(there in allowed, f"{topic} is {there!r}, and {acknowledged} was acknowledged, {sent} sent")
        require(not found, f"nobody published {found}")

    def _states(self) -> dict[str, bytes]:
        client, fence = MqttClient(self.load.address, Version.V5), MqttClient(self.load.address, Version.V5)
        client.connect()
        fence.connect()
        client.subscribe("state/#", qos=0)
        came = messages_of(client.seen_after_retained(fence))
        client.close()
        fence.close()
        return {packet.topic: packet.payload for packet in came}


def mqtt_kill_rounds(place: Path, seed: int, rounds: int, report: Report = lambda text: None) -> Findings:
    """kill -9 under load, in the middle of recovery too, again and again in one directory."""
    return asyncio.run(_kill_rounds(MqttFire(place, seed), rounds, report))


async def _kill_rounds(fire: MqttFire, rounds: int, report: Report) -> Findings:
    rng, directory = random.Random(fire.seed), fire.place / "data"
    process = fire.start(directory)
    try:
        await fire.begin(process)
        for number in range(rounds):
            if number == 0 or rng.random() < 0.85:
                await fire.until_ready(process)
                await fire.until_events(process, rng.randrange(20, 4000))
            else:
                await asyncio.sleep(rng.uniform(0, 0.5))
            fire.crash(process)
            report(f"kill {number + 1}/{rounds}: {fire.history.events} events")
            process = fire.start(directory)
        return await fire.drain(process)
    finally:
        kill(process)


def mqtt_power_cut_rounds(
    place: Path, seed: int, rounds: int, report: Report = lambda text: None, arguments: tuple[str, ...] = ()
) -> Findings:
    """Cut the power under load; the next server goes on with what the medium held."""
    return asyncio.run(_power_cut_rounds(MqttFire(place, seed, arguments), rounds, report))


async def _power_cut_rounds(fire: MqttFire, rounds: int, report: Report) -> Findings:
    rng, image = random.Random(fire.seed), Image.make(fire.place / "image-0", IMAGE_BYTES)
    for number in range(rounds):
        with mounted(image, fire.place / "mount") as mount:
            process = fire.start(mount / "data")
            try:
                await (fire.until_ready(process) if number else fire.begin(process))
                await fire.until_events(process, rng.randrange(50, 4000))
                after = await asyncio.to_thread(_cut, fire, process, image, fire.place / f"image-{number + 1}")
            finally:
                kill(process)
        image.path.unlink()
        image = after
        report(f"power cut {number + 1}/{rounds}: {fire.history.events} events")
    with mounted(image, fire.place / "mount") as mount:
        process = fire.start(mount / "data")
        try:
            found = await fire.drain(process)
        finally:
            kill(process)
    image.path.unlink()
    return found


def _cut(fire: MqttFire, process: subprocess.Popen[bytes], image: Image, after: Path) -> Image:
    """What clients are told until the server stands still was on the medium then."""
    with stopped(process):
        copy = image.copy(after)
        fire.crash(process)
    return copy
