"""The scene's pipeline: Spark aggregates what the devices send, and what it finds comes back over MQTT."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.options import MqttOptions
from penstock.codecs.mqtt.properties import Properties
from penstock.core.errors import ErrorCode, PenstockError

ALERTS, REJECTS, TABLE = "alerts", "rejects", "per_minute"
QUEUES: list[Mapping[str, object]] = [{"name": ALERTS, "partitions": 1}, {"name": REJECTS, "partitions": 1}]
_PROGRAM = "penstock.cli.main"
_LINES_SHOWN = 3

Say = Callable[[str], None]


class PipelineFailed(PenstockError):
    """The pipeline ended while it was needed, or a command about what it wrote did not end well."""

    code = ErrorCode.CLOSED


class ScenePipeline:
    """A declared pipeline over the queue of readings, in a process of its own. What it writes is beside the data."""

    def __init__(self, file: Path, data: Path, say: Say) -> None:
        self._file, self._data, self._say = file, data.absolute(), say
        self.out = self._data.with_name(f"{data.name}-pipeline")
        self.lines = self.out / "pipeline.log"
        self._process: Process | None = None
        self.has_alerted = asyncio.Event()

    @asynccontextmanager
    async def running(self, flight: str) -> AsyncIterator[None]:
        """Started; it takes a while to be at work. Stopped at the end of a micro-batch."""
        self.out.mkdir(parents=True, exist_ok=True)
        places = {"PENSTOCK_DATA": str(self._data), "PENSTOCK_FLIGHT": flight, "PENSTOCK_OUT": str(self.out)}
        with self.lines.open("wb") as said:
            # In a group of its own: Ctrl-C on the terminal is for the scene.
            self._process = await asyncio.create_subprocess_exec(
                *_command("pipeline", "run", str(self._file), "--master", "local[1]"),
                stdin=DEVNULL,
                stdout=said,
                stderr=said,
                env=os.environ | places,
                process_group=0,
            )
        try:
            yield
        finally:
            await self._stop(self._process)

    async def _stop(self, process: Process) -> None:
        if process.returncode is None:
            process.terminate()
            await process.wait()

    async def watch(self) -> None:
        """Ends with PipelineFailed, when the pipeline does."""
        assert self._process is not None
        await self._process.wait()
        said = self.lines.read_text(errors="replace").splitlines()[-_LINES_SHOWN:]
        raise PipelineFailed(
            f"the pipeline ended by itself (exit code {self._process.returncode}); it said: {' | '.join(said)}"
        )

    async def show_alerts(self, options: MqttOptions) -> None:
        """As any client would get them: a group on the queue."""
        terms = Properties(user_properties=(("consumer-group", "scene"), ("ack-mode", "puback")))
        async with AsyncMqttClient(options) as client:
            await client.subscribe(f"$queue/{ALERTS}", qos=1, properties=terms)
            async for message in client.messages():
                alert = json.loads(message.payload)
                self._say(
                    f"alert, over MQTT: {alert['device']} was at {alert['highest']} in the minute {alert['minute']}"
                )
                self.has_alerted.set()

    async def report(self) -> None:
        """The table, in a question, and the page."""
        table, page = self.out / TABLE, self.out / "report.html"
        question = f"select count(*) as rows, max(highest) as highest from read_parquet('{table}/*.parquet')"
        answer = await self._answer("sql", question, "--data", str(self._data), "-o", "json")
        self._say(f"the table {table}: {answer.strip()}")
        await self._answer("pipeline", "report", "--data", str(self._data), "--to", str(page))
        self._say(f"a report of the queues: {page.as_uri()}")

    async def _answer(self, *words: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *_command(*words), stdin=DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        answer, errors = await process.communicate()
        if process.returncode:
            raise PipelineFailed(f"penstock {words[0]} failed: {errors.decode(errors='replace').strip()}")
        return answer.decode()


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", _PROGRAM, *words]
