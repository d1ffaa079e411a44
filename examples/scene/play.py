"""A server at work, seen live."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import click

from examples.scene.board import Board
from examples.scene.devices import POISON_AFTER_S, Device, Readings, past_minutes
from examples.scene.orders import trade
from examples.scene.pipeline import QUEUES, PipelineFailed, ScenePipeline
from examples.scene.server import FLIGHT_PORT, HOST, SceneServer, serving
from examples.scene.workers import QUEUE, SETTINGS, Letters, Worker
from examples.stage import Stage
from penstock.client.mqtt.options import MqttOptions

WORKERS = 3
_LINE_EVERY_S = 2.0
_PATIENCE_S = 30.0
_SPARK_PATIENCE_S = 180.0
# What the devices have kept for the pipeline: windows of a minute close while one looks.
_PAST_MINUTES, _HOT_MINUTE = 3, 1

Work = Coroutine[object, object, None]


class Scene:
    """Talks to its server as any client does."""

    def __init__(self, data: Path, seconds: float | None, devices: int, stage: Stage, pipeline: Path | None) -> None:
        self._data, self._seconds, self._stage = data, seconds, stage
        self._devices = devices
        self._readings = Readings(secrets.token_hex(4))
        self._pipeline = None if pipeline is None else ScenePipeline(pipeline, data, stage.say)
        self._over, self._stopping = asyncio.Event(), asyncio.Event()
        self._is_interrupted = False

    async def run(self) -> bool:
        """Whether everything that was acknowledged was handled, or given up as it should be."""
        self._listen_to_signals()
        self._stage.scene("a server in development mode: everyone on this machine is an admin without login")
        queues, ports = ([SETTINGS, *QUEUES], FLIGHT_PORT) if self._pipeline is not None else ([SETTINGS], {})
        async with serving(self._data, queues, ports) as server:
            self._show_addresses(server.ports)
            options = MqttOptions(host=HOST, port=server.ports["mqtt"])
            async with self._piping(server.ports):
                self._stage.scene("orders over HTTP")
                orders = trade(_url(server.ports), self._readings.run, self._stage.say)
                await _together([orders], beside=[server.watch()])
                await self._play(server, options)
            await server.stop()
        if self._pipeline is not None and self._pipeline.has_alerted.is_set():
            await self._pipeline.report()
        return self._report()

    @asynccontextmanager
    async def _piping(self, ports: dict[str, int]) -> AsyncIterator[None]:
        if self._pipeline is None:
            yield
            return
        self._stage.scene("Spark starts: minutes of each device become a table, and those too hot alerts")
        self._stage.say(f"Arrow Flight: grpc://{HOST}:{ports['flight']}   what it writes: {self._pipeline.out}")
        async with self._pipeline.running(f"grpc://{HOST}:{ports['flight']}"):
            yield
            self._stage.say("the pipeline ends with the micro-batch that it is at")

    def _listen_to_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._end)

    def _end(self) -> None:
        if self._over.is_set():
            raise KeyboardInterrupt
        self._is_interrupted = True
        self._over.set()

    def _show_addresses(self, ports: dict[str, int]) -> None:
        self._stage.say(f"MQTT 3.1.1 and 5: {HOST}:{ports['mqtt']}   WebSocket: ws://{HOST}:{ports['mqtt_ws']}/mqtt")
        self._stage.say(f"HTTP: http://{HOST}:{ports['http']}/docs   metrics: http://{HOST}:{ports['http']}/metrics")
        self._stage.say("in another terminal:")
        for line in invitations(ports["mqtt"], _url(ports)):
            click.echo(f"     {line}")

    async def _play(self, server: SceneServer, options: MqttOptions) -> None:
        until = "Ctrl-C" if self._seconds is None else f"{self._seconds:g} s are over"
        self._stage.scene(f"{self._devices} devices, {WORKERS} workers on the queue {QUEUE}, until {until}")
        board, say = Board(options), self._stage.say
        others = [Worker(1 + number, options, self._readings, say).run() for number in range(WORKERS)]
        others += [Letters(options, self._readings, say).run(), board.run(), server.watch()]
        if self._pipeline is not None:
            others += [self._pipeline.watch(), self._pipeline.show_alerts(options)]
        with self._stage.watching(board.row, _LINE_EVERY_S):
            await _together([self._act(options)], beside=others)

    async def _act(self, options: MqttOptions) -> None:
        devices = [
            Device(f"pump-{1 + number}", options, self._readings, self._stage.say) for number in range(self._devices)
        ]
        past = [past_minutes(_PAST_MINUTES, None if number else _HOT_MINUTE) for number in range(self._devices)]
        work = [
            device.run(
                self._stopping,
                math.inf if number else POISON_AFTER_S,
                past[number] if self._pipeline is not None else (),
            )
            for number, device in enumerate(devices)
        ]
        await _together([*work, self._wait()])
        await self._finish()

    async def _wait(self) -> None:
        """Until it is over, then until the devices have said goodbye."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._over.wait()
        except TimeoutError:
            self._over.set()
        await self._wait_for_alert()
        self._stage.say("the devices stop; the workers finish what is there")
        self._stopping.set()

    async def _wait_for_alert(self) -> None:
        """Spark takes a while to start, longer than some scenes are meant to last."""
        if self._pipeline is None or self._is_interrupted or self._pipeline.has_alerted.is_set():
            return
        self._stage.say("going on until Spark has sent its first alert")
        try:
            async with asyncio.timeout(_SPARK_PATIENCE_S):
                await self._pipeline.has_alerted.wait()
        except TimeoutError:
            raise PipelineFailed(f"no alert came in {_SPARK_PATIENCE_S:g} s; {self._pipeline.lines} has more") from None

    async def _finish(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._readings.none_left.wait()

    def _report(self) -> bool:
        readings, stage = self._readings, self._stage
        stage.scene("the server has stopped, drained")
        if readings.left:
            stage.bad(f"{readings.left:,} readings were neither handled nor given up")
        else:
            stage.good(
                f"{readings.acknowledged:,} readings acknowledged: {readings.handled:,} handled, "
                f"{readings.given_up:,} in the dead letters, none lost"
            )
        stage.say(f"The data is in {self._data}. Look at it, or go on with it:")
        for line in farewells(self._data):
            click.echo(f"     {line}")
        return not readings.left


def _url(ports: dict[str, int]) -> str:
    return f"http://{HOST}:{ports['http']}"


def invitations(port: int, url: str) -> list[str]:
    """What to type while it runs; each ends by itself."""
    penstock, python = _program("penstock"), _program("python")
    return [
        f"mosquitto_sub -h {HOST} -p {port} -t 'devices/#' -v -C 20",
        f"mosquitto_pub -h {HOST} -p {port} -q 1 -t devices/mine/reading -m '{{\"celsius\": 21.5}}'",
        f"mosquitto_pub -h {HOST} -p {port} -q 1 -t devices/mine/reading -m rubbish    # soon a dead letter",
        f"{penstock} subscribe 'devices/+/status' --count 3 -H {HOST} -p {port}",
        f'{python} -c "import paho.mqtt.subscribe as paho; '
        f"print(paho.simple('devices/+/reading', hostname='{HOST}', port={port}).payload)\"",
        f"{penstock} top --url {url} --once    # without --once it goes on",
        f"{penstock} consume {QUEUE} --url {url} --follow --max 20",
    ]


def farewells(data: Path) -> list[str]:
    """What to type when it is over."""
    penstock, place = _program("penstock"), shlex.quote(str(data))
    return [
        f"{penstock} queue list --data {place}",
        f"{penstock} dlq list {QUEUE} --data {place}",
        f"{penstock} serve --dev --data {place}",
    ]


def _program(name: str) -> str:
    """As this shell would find it: by its name, or beside the interpreter that runs here."""
    beside = Path(sys.executable).with_name(name)
    found = shutil.which(name)
    if found is not None and Path(found) == beside:
        return name
    return shlex.quote(str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside))


async def _together(work: Iterable[Work], beside: Iterable[Work] = ()) -> None:
    """Until all of the work is done; what is beside it goes on so long. What any of them raises ends all of them."""
    needed = {asyncio.ensure_future(each) for each in work}
    running = tasks = needed | {asyncio.ensure_future(each) for each in beside}
    try:
        while needed & running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
