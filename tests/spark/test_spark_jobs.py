"""Jobs that Spark schedules give what they give without it."""

from __future__ import annotations

import os
import signal
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from tests.support.auditing import Books
from tests.support.live_tables import LiveTables
from tests.support.mortal_server import mortal_server
from tests.support.numbered import until_end

import penstock
from penstock.cli.replaying import ReplayRequest, count_replay, replay
from penstock.cli.table_source import DirectorySource, FlightLogin, FlightSource
from penstock.client.flight import FlightClient
from penstock.core.errors import NoSuchQueue
from penstock.jobs import replay_plan
from penstock.jobs.archive import ArchiveRequest, archive
from penstock.jobs.audit import audit_job
from penstock.jobs.findings import Verdict
from penstock.jobs.job import Job, run
from penstock.jobs.ranges import QueueRange
from penstock.jobs.replay_transform import PythonTransform, unchanged
from penstock.jobs.snapshot import SnapshotRequest, snapshot
from penstock.log.columns import Columns
from penstock.spark.jobs import OnSpark, SparkFailed


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three partitions, sixty rows, ten keys; closed."""
    root = tmp_path_factory.mktemp("data")
    live = LiveTables(root)
    logs = [live.create("devices", number) for number in range(3)]
    for number in range(12):
        keys = [b"k%d" % (key % 10) for key in range(5 * number, 5 * number + 5)]
        values = [b"%d" % (5 * number + row) for row in range(5)]
        for partition, columns in Columns.of(values, keys=keys).scatter(3):
            live.append(logs[partition], columns)
    live.close()
    return root


def test_an_archive_by_spark_has_every_row_and_spark_reads_it(
    spark: SparkSession, directory: Path, tmp_path: Path
) -> None:
    request = ArchiveRequest(directory, ["devices"], tmp_path, split_rows=10)
    report = archive(request, OnSpark(spark, pieces_at_once=4))
    assert (report.rows, archive(request, OnSpark(spark)).rows) == (60, 0)
    frame = spark.read.parquet(str(tmp_path))
    assert {"queue", "date", "partition"} <= set(frame.columns)
    found = frame.selectExpr("count(*)", "count(distinct partition, offset)", "max(queue)").collect()[0]
    assert tuple(found) == (60, 60, "devices")


def test_a_snapshot_by_spark_is_the_same_table(spark: SparkSession, directory: Path, tmp_path: Path) -> None:
    assert snapshot(SnapshotRequest(directory, "devices", tmp_path), OnSpark(spark)).rows == 10
    table = ds.dataset(tmp_path, format="parquet").to_table(columns=["key", "value"])
    found = dict(zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True))
    assert found == {b"k%d" % number: b"%d" % (50 + number) for number in range(10)}


def test_an_audit_by_spark_gives_the_same_verdict(spark: SparkSession, directory: Path) -> None:
    assert run(audit_job(directory), OnSpark(spark)).verdict is Verdict.OK
    path = Books(directory, "default/devices/1").path()
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    assert run(audit_job(directory), OnSpark(spark)).verdict is Verdict.DAMAGED
    path.write_bytes(data)


def test_what_a_piece_raises_is_raised_as_it_is(spark: SparkSession, directory: Path) -> None:
    def rows(piece: QueueRange) -> int:
        return sum(batch.num_rows for batch in piece.read())

    piece = QueueRange(str(directory), "default", "nobody", 0, 0, 1, 1)
    with pytest.raises(NoSuchQueue, match="nobody"):
        run(Job("reading", [piece], rows, list[int], lambda each: 1), OnSpark(spark))


def test_what_goes_wrong_in_a_worker_is_told_in_a_line(spark: SparkSession) -> None:
    def failing(piece: int) -> int:
        raise OSError("no room on this worker")

    with pytest.raises(SparkFailed, match="no room on this worker"):
        run(Job("failing", [1], failing, list[int], lambda each: 1), OnSpark(spark))


def _killing_once(place: Path) -> Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]:
    """The first task that has passed a batch on is killed."""

    def passing(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield batch
        try:
            place.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    return passing


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replay_plan.plan_pieces
    monkeypatch.setattr(replay_plan, "plan_pieces", lambda table, span: plan(table, span, 100))


def _numbers_of_keys(batches: Iterable[pa.RecordBatch]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            found.setdefault(row["key"], []).append(int(row["value"]))
    return found


_EXPECTED = {b"k%d" % key: list(range(key, 500, 7)) for key in range(7)}


@pytest.mark.usefixtures("small_pieces")
def test_a_replay_by_spark_into_a_directory_has_every_row_once_though_a_task_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    with penstock.open(tmp_path / "data") as database:
        database.declare("orders", partitions=2)
        database.put_many("orders", [b"%d" % n for n in range(500)], [b"k%d" % (n % 7) for n in range(500)])
    killing = PythonTransform(_killing_once(tmp_path / "killed"))
    source, checkpoint = DirectorySource(tmp_path / "data"), tmp_path / "again.replay"
    request = ReplayRequest(source, "orders", "again", transform=killing, checkpoint=checkpoint)
    assert replay(request, OnSpark(spark, pieces_at_once=4)).rows == 500
    with closing(source.open_table("again")) as table:
        batches = [batch for one in table.partitions() for batch in table.read(one.number, columns=["key", "value"])]
    assert _numbers_of_keys(batches) == _EXPECTED
    assert {path.name for path in tmp_path.iterdir()} == {"data", "killed"}


@pytest.mark.usefixtures("small_pieces")
def test_a_replay_by_spark_through_a_server_has_every_row_once_though_a_task_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    with mortal_server(tmp_path / "server") as server, FlightClient(server.flight_url) as client:
        server.http.create_queue("orders", {"partitions": 2})
        keys, values = [b"k%d" % (n % 7) for n in range(500)], [b"%d" % n for n in range(500)]
        client.append("orders", pa.record_batch({"key": keys, "value": values}))
        until_end(server.data, "orders", 500)
        killing = PythonTransform(_killing_once(tmp_path / "killed"))
        source, checkpoint = FlightSource(FlightLogin(server.flight_url)), tmp_path / "again.replay"
        request = ReplayRequest(source, "orders", "again", transform=killing, checkpoint=checkpoint)
        assert count_replay(replace(request, transform=unchanged), OnSpark(spark)).rows == 500
        assert replay(request, OnSpark(spark)).rows == 500
        until_end(server.data, "again", 500)
        with closing(source.open_table("again")) as table:
            read = [table.read(one.number, one.start, one.end, ["key", "value"]) for one in table.partitions()]
            assert _numbers_of_keys(chain.from_iterable(read)) == _EXPECTED
        with urllib.request.urlopen(f"{server.http_url}/metrics") as answer:
            assert b"\npenstock_broker_stages 0" in answer.read()
    assert (tmp_path / "killed").exists()
