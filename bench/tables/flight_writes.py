"""Rows written over Flight, appended and staged, durable when they are answered; against DoPut of the same rows into
nothing, and against the same bytes written to a file and synced."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa

import penstock
from bench.measure import Benchmark, Comparison, Run, Series, interleaved, seconds
from bench.mqtt.servers import HOST, Server, free_port
from bench.process import BenchmarkFailed
from penstock.client.flight import FlightClient

_BATCH_ROWS, _VALUE_BYTES = 10_000, 256


@dataclass(slots=True)
class _Load:
    table: pa.Table
    http: penstock.Client
    client: FlightClient
    nothing: FlightClient
    file: Path
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def bytes(self) -> int:
        return int(self.table.nbytes)


def run(settings: Run) -> list[Comparison]:
    batch = pa.record_batch(
        {
            "key": [f"customer-{number * 7919 % 100_000:06}" for number in range(_BATCH_ROWS)],
            "value": [os.urandom(_VALUE_BYTES) for _ in range(_BATCH_ROWS)],
        }
    )
    table = pa.Table.from_batches([batch] * settings.size(100, 2))
    with _served(settings.directory) as (http, client), _dropping(settings.directory) as nothing:
        load = _Load(table, http, client, nothing, settings.directory / "plain")
        calls: dict[str, Callable[[], float]] = {
            "append, one partition": partial(_append, load, 1),
            "append, ten partitions by key": partial(_append, load, 10),
            "stage": partial(_stage, load),
            "DoPut into nothing": partial(_put_into_nothing, load),
            "file, written and synced": partial(_write, load),
        }
        return _comparisons(load, interleaved(settings.rounds, calls))


def _comparisons(load: _Load, samples: dict[str, tuple[float, ...]]) -> list[Comparison]:
    series = {way: Series(way, taken, bytes=load.bytes) for way, taken in samples.items()}
    *ways, nothing, file = series.values()
    return [
        Comparison(way, base, notes={"rows": f"{load.rows / way.spread.median / 1e6:.2f} million rows/s"})
        for way in ways
        for base in (nothing, file)
    ]


def _append(load: _Load, partitions: int) -> float:
    queue = f"bench-{next(load.numbers)}"
    load.http.create_queue(queue, {"partitions": partitions})
    placed: list[int] = []
    taken_s = seconds(lambda: placed.extend(each.rows for each in load.client.append(queue, load.table)))
    _check(load, sum(placed))
    load.http.delete_queue(queue)
    return taken_s


def _stage(load: _Load) -> float:
    queue = f"bench-{next(load.numbers)}"
    load.http.create_queue(queue)
    stager = load.client.stager(queue, writer=queue)

    def stage() -> None:
        with stager:
            stager.stage(load.table)

    taken_s = seconds(stage)
    _check(load, sum(each.rows for each in stager.ranges))
    load.client.abandon(stager.ranges)
    load.http.delete_queue(queue)
    return taken_s


def _put_into_nothing(load: _Load) -> float:
    placed: list[int] = []
    taken_s = seconds(lambda: placed.extend(each.rows for each in load.nothing.append("nothing", load.table)))
    _check(load, sum(placed))
    return taken_s


def _write(load: _Load) -> float:
    """Into a file that is there already, as journals are."""

    def write() -> None:
        with load.file.open("r+b" if load.file.exists() else "wb") as file:
            for batch in load.table.to_batches():
                for column in batch.columns:
                    os.writev(file.fileno(), [buffer for buffer in column.buffers() if buffer is not None])
                os.fdatasync(file.fileno())

    return seconds(write)


def _check(load: _Load, rows: int) -> None:
    if rows != load.rows:
        raise BenchmarkFailed(f"{rows} rows were answered, not {load.rows}")


@contextmanager
def _served(directory: Path) -> Iterator[tuple[penstock.Client, FlightClient]]:
    """A server, as people start one."""
    ready = directory / "ready.json"
    command = [sys.executable, "-m", "penstock.cli.main", "--log-level", "error", "serve", "--dev"]
    for listener in ("mqtt", "mqtt_ws", "http", "flight"):
        command += ["--set", f"listeners.{listener}.port=0"]
    data = str(directory / "data")
    server = Server("penstock", [*command, "--data", data, "--ready-file", str(ready)], directory / "server")
    try:
        server.wait(ready.exists)
        ports = {name: at["port"] for name, at in json.loads(ready.read_text())["listeners"].items()}
        with (
            penstock.Client(f"http://{HOST}:{ports['http']}") as http,
            FlightClient(f"grpc://{HOST}:{ports['flight']}") as client,
        ):
            yield http, client
    finally:
        server.stop()


@contextmanager
def _dropping(directory: Path) -> Iterator[FlightClient]:
    port, ready = free_port(), directory / "dropping"
    repository = Path(__file__).parents[2]
    command = [sys.executable, str(Path(__file__).with_name("dropping.py")), str(port), str(ready)]
    server = Server("nothing", command, directory / "nothing", {"PYTHONPATH": str(repository)})
    try:
        server.wait(ready.exists)
        with FlightClient(f"grpc://{HOST}:{port}") as client:
            yield client
    finally:
        server.stop()


BENCHMARK = Benchmark("flight-writes", "rows written over Arrow Flight, appended and staged", run)
