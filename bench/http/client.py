"""The Python client over HTTP: durable messages through a producer by the size of its batches, against batches of 1."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.measure import Benchmark, Comparison, Run, Series, Spread, interleaved
from bench.mqtt.servers import Server
from bench.process import BenchmarkFailed
from penstock.aio import Client

_BATCHES = {1: 1_000, 10: 10_000, 100: 40_000, 1000: 40_000}
"""messages of a round, by messages of a batch"""
_VALUE = "x" * 256


def run(settings: Run) -> list[Comparison]:
    with _server(settings.directory) as url:
        calls = {
            str(batch): partial(_seconds_a_message, url, batch, settings.size(count, 2 * batch))
            for batch, count in _BATCHES.items()
        }
        samples = interleaved(settings.rounds, calls)
    single = Series("batches of 1, a message", samples["1"], bytes=len(_VALUE))
    return [
        Comparison(
            Series(f"batches of {batch}, a message", samples[str(batch)], bytes=len(_VALUE)),
            None if batch == 1 else single,
            notes={"messages/s": f"{1 / Spread.of(samples[str(batch)]).median:,.0f}"},
        )
        for batch in _BATCHES
    ]


def _seconds_a_message(url: str, batch: int, count: int) -> float:
    return asyncio.run(_produce(url, batch, count)) / count


async def _produce(url: str, batch: int, count: int) -> float:
    """Seconds until all are stored; what the server has is counted."""
    async with Client(url) as client:
        queue = (await client.create_queue(f"bench/{time.time_ns()}", {"partitions": 1})).name
        producer = client.producer(queue, batch_messages=batch, batch_bytes=8 << 20, linger_s=1.0)
        begun = time.perf_counter()
        for _ in range(count):
            await producer.send(_VALUE)
        await producer.flush()
        took_s = time.perf_counter() - begun
        if (stored := (await client.queue(queue)).messages) != count:
            raise BenchmarkFailed(f"{stored} messages are stored, {count} were sent")
        await client.delete_queue(queue)
    return took_s


@contextmanager
def _server(directory: Path) -> Iterator[str]:
    """In a process of its own, on free ports."""
    ready = directory / "ready.json"
    command = [sys.executable, "-m", "penstock.cli.main", "--log-level", "error", "serve", "--dev"]
    command += ["--data", str(directory / "data"), "--ready-file", str(ready)]
    for listener in ("mqtt", "mqtt_ws", "http"):
        command += ["--set", f"listeners.{listener}.port=0"]
    server = Server("penstock", command, directory)
    try:
        server.wait(ready.exists)
        yield f"http://127.0.0.1:{json.loads(ready.read_text())['listeners']['http']['port']}"
    finally:
        server.stop()


BENCHMARK = Benchmark(
    "http-client", "messages of 256 bytes by the Python client over HTTP, by batch size, durable", run
)
