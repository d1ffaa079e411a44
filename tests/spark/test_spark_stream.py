"""Queues read as streams by a real Spark: nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.support.faults import wait_until
from tests.support.http_server import running_server
from tests.support.numbered import purge, put_numbers, until_declared, until_end

import penstock
from penstock.client.http.client import Client
from penstock.embedded.database import Database
from penstock.spark.offsets import BEHIND, METRICS


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with penstock.open(tmp_path / "data") as opened:
        opened.declare("orders", partitions=2)
        until_declared(opened, "orders")
        yield opened


def _run(spark: SparkSession, database: Database, place: Path, wanted: str = "true", **options: str) -> StreamingQuery:
    """All that is there now, appended to files below `place`; with the checkpoint of the run before."""
    given = {"path": str(database.directory), "queue": "orders", **options}
    rows = spark.readStream.format("penstock").options(**given).load()
    query = (
        rows.selectExpr("cast(value as string) as number", "partition", "offset")
        .where(wanted)
        .writeStream.format("parquet")
        .option("path", str(place / "rows"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def _numbers(spark: SparkSession, place: Path) -> list[int]:
    return sorted(int(row.number) for row in spark.read.parquet(str(place / "rows")).collect())


def test_a_stream_goes_on_from_its_checkpoint_without_loss_or_repetition(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    put_numbers(database, "orders", range(30_000))
    first = _run(spark, database, tmp_path, maxOffsetsPerTrigger="8000")
    assert [progress.numInputRows for progress in first.recentProgress if progress.numInputRows] == [8000] * 3 + [6000]
    assert _numbers(spark, tmp_path) == list(range(30_000))
    put_numbers(database, "orders", range(30_000, 31_000))
    _run(spark, database, tmp_path)
    _run(spark, database, tmp_path)
    assert _numbers(spark, tmp_path) == list(range(31_000))


def test_a_stream_picks_up_added_partitions_and_reports_how_far_it_could_go(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    put_numbers(database, "orders", range(100))
    _run(spark, database, tmp_path)
    database.change("orders", partitions=4)
    for partition in range(4):
        put_numbers(database, "orders", [1000 + partition], partition)
    query = _run(spark, database, tmp_path)
    assert _numbers(spark, tmp_path) == [*range(100), 1000, 1001, 1002, 1003]
    source = query.recentProgress[-1].sources[0]
    latest = json.loads(source.latestOffset)
    assert (latest.pop(METRICS)["rowsBehindLatest"], latest.pop(BEHIND)) == (0, {"orders": 0})
    assert latest == json.loads(source.endOffset)


def test_a_batch_that_failed_is_read_again_as_it_was(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    """The end of a batch is decided before it is read: what came meanwhile belongs to the next one."""
    put_numbers(database, "orders", range(100))
    with pytest.raises(StreamingQueryException, match="not this time"):
        _run(spark, database, tmp_path, wanted="raise_error('not this time') is null")
    put_numbers(database, "orders", range(100, 150))
    query = _run(spark, database, tmp_path)
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [100, 50]
    assert _numbers(spark, tmp_path) == list(range(150))


def test_trimmed_offsets_end_a_stream_or_are_passed_over_when_asked(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    put_numbers(database, "orders", range(10), partition=0)
    _run(spark, database, tmp_path)
    put_numbers(database, "orders", range(10, 20), partition=0)
    purge(database, "orders")
    put_numbers(database, "orders", range(20, 30), partition=0)
    with pytest.raises(StreamingQueryException, match="10 offsets are gone: offsets 10 to 19 of partition 0"):
        _run(spark, database, tmp_path)
    _run(spark, database, tmp_path, failOnDataLoss="false")
    assert _numbers(spark, tmp_path) == [*range(10), *range(20, 30)]


def test_a_running_stream_reads_what_is_put_meanwhile(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    given = {"path": str(database.directory), "queue": "orders", "startingOffsets": "earliest"}
    rows = spark.readStream.format("penstock").options(**given).load()
    query = (
        rows.selectExpr("cast(value as string) as number")
        .writeStream.format("memory")
        .queryName("running")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        for first in range(0, 500, 100):
            put_numbers(database, "orders", range(first, first + 100))
            query.processAllAvailable()
            assert spark.table("running").count() == first + 100
    finally:
        query.stop()
    assert sorted(int(row.number) for row in spark.table("running").collect()) == list(range(500))


def test_a_group_of_the_broker_shows_that_all_was_read(spark: SparkSession, tmp_path: Path) -> None:
    with running_server(tmp_path / "server") as server, Client("http://{}:{}".format(*server.address)) as client:
        client.create_queue("orders", {"partitions": 2})
        client.publish_many("orders", [str(number) for number in range(50)])
        data = tmp_path / "server" / "data"
        until_end(data, "orders", 50)
        options = {"path": str(data), "queue": "orders", "groupId": "spark", "url": client.options.url}
        rows = spark.readStream.format("penstock").options(**options).load()
        writing = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writing.trigger(availableNow=True).start().awaitTermination()
        assert client.group("orders", "spark").lag == 0


def test_a_query_that_fails_leaves_no_word_of_its_processes(
    spark: SparkSession, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark lets go of those that read and plan for it; it used to print a traceback of each."""
    put_numbers(database, "orders", range(100))
    with pytest.raises(StreamingQueryException, match="not this time"):
        _run(spark, database, tmp_path, wanted="raise_error('not this time') is null")
    wait_until(lambda: not _planning(), "the process that planned has ended")
    assert "BrokenPipeError" not in capfd.readouterr().err


def _planning() -> list[str]:
    """Processes of this session that plan streams: children of a daemon that is below this process."""
    found = {each.name: _parent_and_command(each) for each in Path("/proc").iterdir() if each.name.isdigit()}
    mine = {str(os.getpid())}
    while more := {pid for pid, (parent, _) in found.items() if parent in mine} - mine:
        mine |= more
    daemons = {pid for pid in mine if "python_streaming_source_runner" in found.get(pid, ("", ""))[1]}
    return [pid for pid in daemons if found[pid][0] in daemons]


def _parent_and_command(process: Path) -> tuple[str, str]:
    try:
        parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
        return parent, (process / "cmdline").read_text()
    except OSError:
        return "", ""
