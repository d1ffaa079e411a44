"""Jobs that Spark schedules give what they give without it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from tests.support.auditing import Books
from tests.support.live_tables import LiveTables

from penstock.core.errors import NoSuchQueue
from penstock.jobs.archive import ArchiveRequest, archive
from penstock.jobs.audit import audit_job
from penstock.jobs.findings import Verdict
from penstock.jobs.job import Job, run
from penstock.jobs.ranges import QueueRange
from penstock.jobs.snapshot import SnapshotRequest, snapshot
from penstock.log.columns import Columns
from penstock.spark.jobs import OnSpark


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
