"""A queue read as Arrow rows, from its directory and by Flight's DoGet, against Parquet of the same rows and memcpy."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import flight

from bench.measure import Benchmark, Comparison, Run, Series, interleaved, seconds
from bench.mqtt.servers import Server
from bench.path.load import BATCH_MESSAGES, append_batches, full_columns
from bench.process import BenchmarkFailed
from penstock.log.shard import Shard
from penstock.queues.names import data_log
from penstock.tables.schema import DEFAULT_COLUMNS
from penstock.tables.table import QueueTable

QUEUE = "bench"
_BATCH_ROWS = 10_000
_CHOICES: dict[str, Sequence[str]] = {"all columns": DEFAULT_COLUMNS, "key and value": ("key", "value")}


@dataclass(frozen=True, slots=True)
class Data:
    directory: Path
    parquet: Path
    rows: int
    bytes: int
    """of the values and keys"""


def run(settings: Run) -> list[Comparison]:
    data = fill(settings)
    stored = _stored(data.directory)
    room_bytes = len(stored) * _BATCH_ROWS // data.rows
    found: list[Comparison] = []
    with _served(data.directory, settings.directory) as client:
        for name, columns in _CHOICES.items():
            table = QueueTable.open(data.directory, QUEUE)
            calls: dict[str, Callable[[], float]] = {
                "directory": partial(_read_directory, data, table, columns),
                "flight": partial(_read_flight, data, client, columns),
                "parquet": partial(_read_parquet, data, columns),
                "memcpy": partial(_copy, stored, room_bytes),
            }
            found += _comparisons(data, name, interleaved(settings.rounds, calls))
            table.close()
    return found


def _comparisons(data: Data, name: str, samples: dict[str, tuple[float, ...]]) -> list[Comparison]:
    series = {way: Series(f"{way}, {name}", taken, bytes=data.bytes) for way, taken in samples.items()}
    speeds = {way: f"{data.rows / one.spread.median / 1e6:.2f} million rows/s" for way, one in series.items()}
    pairs = (("directory", "parquet"), ("flight", "parquet"), ("directory", "memcpy"), ("flight", "memcpy"))
    return [Comparison(series[way], series[base], notes={"rows": speeds[way]}) for way, base in pairs]


def fill(settings: Run) -> Data:
    directory, parquet = settings.directory / "data", settings.directory / "rows.parquet"
    batches = settings.size(2400, 40)
    asyncio.run(_append(directory, batches))
    table = QueueTable.open(directory, QUEUE)
    with pq.ParquetWriter(parquet, table.read(0).schema) as writer:
        sizes = [_written(writer, batch) for batch in table.read(0)]
    table.close()
    return Data(directory, parquet, batches * BATCH_MESSAGES, sum(sizes))


def _written(writer: pq.ParquetWriter, batch: pa.RecordBatch) -> int:
    writer.write_batch(batch)
    return _content_bytes(batch)


async def _append(directory: Path, batches: int) -> None:
    async with await Shard.open(directory) as shard:
        log = await shard.create(data_log("default", QUEUE, 0))
        await append_batches(shard, log, full_columns(), batches)


def _read(data: Data, batches: Iterable[pa.RecordBatch]) -> float:
    """Seconds. What came is counted, and every value and key is looked at by its length."""
    rows = size = 0

    def take() -> None:
        nonlocal rows, size
        for batch in batches:
            rows += batch.num_rows
            size += _content_bytes(batch)

    taken_s = seconds(take)
    if (rows, size) != (data.rows, data.bytes):
        raise BenchmarkFailed(f"{rows} rows of {size} bytes came back, not {data.rows} of {data.bytes}")
    return taken_s


def _read_directory(data: Data, table: QueueTable, columns: Sequence[str]) -> float:
    return _read(data, table.read(0, columns=columns))


def _content_bytes(batch: pa.RecordBatch) -> int:
    lengths = [pc.sum(pc.binary_length(batch.column(name))).as_py() for name in ("key", "value")]
    return sum(length or 0 for length in lengths)


def _read_parquet(data: Data, columns: Sequence[str]) -> float:
    with pq.ParquetFile(data.parquet) as file:
        return _read(data, file.iter_batches(_BATCH_ROWS, columns=list(columns)))


def _read_flight(data: Data, client: flight.FlightClient, columns: Sequence[str]) -> float:
    command = json.dumps({"queue": QUEUE, "columns": list(columns)})
    [endpoint] = client.get_flight_info(flight.FlightDescriptor.for_command(command)).endpoints
    return _read(data, client.do_get(endpoint.ticket).to_reader())


def _copy(stored: bytes, room_bytes: int) -> float:
    """What the segments hold, a batch of rows at a time, over memory that was written to before."""
    source, room = memoryview(stored), memoryview(bytearray(room_bytes))

    def copy() -> None:
        for at in range(0, len(source), room_bytes):
            piece = source[at : at + room_bytes]
            room[: len(piece)] = piece

    return seconds(copy)


def _stored(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*.seg")) if QUEUE in str(path.parent))


@contextmanager
def _served(data: Path, directory: Path) -> Iterator[flight.FlightClient]:
    """A server on that data, as people start one."""
    ready = directory / "ready.json"
    command = [sys.executable, "-m", "penstock.cli.main", "--log-level", "error", "serve", "--dev"]
    for listener in ("mqtt", "mqtt_ws", "http", "flight"):
        command += ["--set", f"listeners.{listener}.port=0"]
    server = Server("penstock", [*command, "--data", str(data), "--ready-file", str(ready)], directory)
    try:
        server.wait(ready.exists)
        port = json.loads(ready.read_text())["listeners"]["flight"]["port"]
        with flight.connect(f"grpc://127.0.0.1:{port}") as client:
            yield client
    finally:
        server.stop()


BENCHMARK = Benchmark("tables", "a queue read as Arrow rows from its directory and over Flight", run, syncs=False)
