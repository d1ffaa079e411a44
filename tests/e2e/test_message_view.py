"""Messages that came by AMQP 0.9.1, through the server's other doors, the jobs and the command line."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import flight
from tests.support.amqp091 import TASK, TASK_HEADERS
from tests.support.cli import penstock as run_command
from tests.support.flight import read, wait_for_rows
from tests.support.live_server import LiveServer, live_server

import penstock
from penstock.client.flight import FlightClient, FlightRefused
from penstock.jobs.archive import ArchiveRequest, archive
from penstock.jobs.local import InThisProcess
from penstock.jobs.snapshot import SnapshotRequest, snapshot
from penstock.log.columns import Columns
from penstock.queues.names import data_log
from penstock.tables.table import QueueTable

NATIVE = TASK.stored()
LOG = data_log("default", "tasks", 0)
LANG = {"key": "lang", "value": b"py"}


@dataclass(frozen=True)
class Served:
    server: LiveServer
    http: penstock.Client
    raw: flight.FlightClient
    flight: FlightClient


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with (
        live_server(tmp_path_factory.mktemp("view"), ["listeners.flight.port=0"]) as server,
        penstock.Client(f"http://127.0.0.1:{server.ports['http']}") as http,
        flight.connect(f"grpc://127.0.0.1:{server.ports['flight']}") as raw,
        FlightClient(f"grpc://127.0.0.1:{server.ports['flight']}") as client,
    ):
        yield Served(server, http, raw, client)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with penstock.open(tmp_path / "data") as database:
        database.declare("tasks", partitions=1)
        database.put_many("tasks", Columns.of([b"one", b"two"], keys=[b"1", b"2"], native=[NATIVE, b""]))
    return tmp_path / "data"


def test_rows_are_appended_and_staged_with_them_and_every_door_shows_them(served: Served) -> None:
    served.http.create_queue("tasks", {"partitions": 1})
    batch = pa.record_batch({"value": ["one", "two"], "native": pa.array([NATIVE, None], pa.binary())})
    served.flight.append("tasks", batch)
    with served.flight.stager("tasks", writer="w") as stager:
        stager.stage(batch)
    served.flight.commit("query", 0, stager.ranges)
    wait_for_rows(served.raw, "tasks", 4)
    rows = read(served.raw, "tasks", columns=["value", "headers", "native"]).to_pylist()
    assert [row["native"] for row in rows] == [NATIVE, None] * 2
    assert [LANG in row["headers"] for row in rows] == [True, False] * 2
    first = next(iter(served.http.browse("tasks")))
    assert (first.content_type, first.reply_to) == ("application/json", "$queue/answers")
    assert tuple(first.headers) == TASK_HEADERS or dict(first.headers) == dict(TASK_HEADERS)


def test_bytes_that_no_door_writes_are_refused(served: Served) -> None:
    served.http.create_queue("refused", {"partitions": 1})
    for bad in (NATIVE[:-1], b"\x01", b"\x10\0\0"):
        batch = pa.record_batch({"value": ["x"], "native": pa.array([bad], pa.binary())})
        with pytest.raises(FlightRefused, match="native properties"):
            served.flight.append("refused", batch)


def test_archives_and_snapshots_have_both(directory: Path, tmp_path: Path) -> None:
    archive(ArchiveRequest(directory, ["tasks"], tmp_path / "archive"), InThisProcess())
    snapshot(SnapshotRequest(directory, "tasks", tmp_path / "table"), InThisProcess())
    for place in ("archive", "table"):
        found = ds.dataset(tmp_path / place, format="parquet", partitioning="hive").to_table().to_pylist()
        assert sorted(row["native"] or b"" for row in found) == [b"", NATIVE]
        assert sum(LANG in row["headers"] for row in found) == 1


@pytest.mark.parametrize(("sql", "native"), [((), NATIVE), (("--sql", "select * from tasks"), None)])
def test_a_replay_keeps_them_and_a_query_gives_headers_in_their_place(
    directory: Path, tmp_path: Path, sql: tuple[str, ...], native: bytes | None
) -> None:
    given = ["--from", "tasks", "--to", "again", "--checkpoint", str(tmp_path / "state"), *sql]
    run_command("pipeline", "replay", "--data", directory, *given)
    table = QueueTable.open(directory, "again")
    wanted = ["value", "headers", "native"]
    numbers = [partition.number for partition in table.partitions()]
    rows = [row for number in numbers for batch in table.read(number, columns=wanted) for row in batch.to_pylist()]
    table.close()
    assert sorted((row["value"], row["native"]) for row in rows) == [(b"one", native), (b"two", None)]
    headers = next(row["headers"] for row in rows if row["value"] == b"one")
    names = [pair["key"] for pair in headers]
    assert len(names) == len(set(names)) and "replayed-from" in names
    assert {(name, value.encode()) for name, value in TASK_HEADERS} < {(each["key"], each["value"]) for each in headers}


def test_log_cat_shows_the_view_and_what_is_stored(directory: Path) -> None:
    printed = run_command("log", "cat", directory, "--log", LOG, "-o", "json").stdout
    first, second = [json.loads(line) for line in printed.splitlines()]
    assert "$queue/answers" in first["properties"] and "lang" in first["properties"]
    assert base64.b64decode(first["native_base64"]) == NATIVE
    assert "native_base64" not in second and "properties" not in second


def test_queries_show_them(directory: Path) -> None:
    query = "select value, list_transform(headers, lambda h: h.key) as names from tasks order by tasks.offset"
    printed = run_command("sql", query, "--data", directory, "-o", "json").stdout
    assert "message-id-of-sender" in printed.decode()
