"""Queue to queue through a real Spark: each input is written exactly once, whatever is killed or done again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.driver import run_driver
from tests.spark.faulty_sinks import FAULTY, killing_once
from tests.spark.pipelines import Pipeline, assert_each_once, copies, declare, feed, written
from tests.support.mortal_server import MortalServer, mortal_server
from tests.support.numbered import until_end

from penstock.client.flight import FlightClient

ROWS, EPOCH_ROWS = 3000, 1000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MortalServer]:
    with mortal_server(tmp_path_factory.mktemp("sink") / "server") as running:
        yield running


@pytest.fixture
def pipeline(server: MortalServer, tmp_path: Path) -> Pipeline:
    made = Pipeline(server.flight_url, tmp_path / "checkpoint", tmp_path.name, max_offsets=EPOCH_ROWS)
    declare(server, made, ROWS)
    return made


def test_each_input_is_written_once_with_its_key(spark: SparkSession, server: MortalServer, pipeline: Pipeline) -> None:
    pipeline.run(spark)
    assert_each_once(server, pipeline, ROWS)
    feed(server, pipeline, range(ROWS, ROWS + 100))
    pipeline.run(spark)
    assert_each_once(server, pipeline, ROWS + 100)
    read = spark.read.format("penstock").option("url", server.flight_url).option("queue", pipeline.output).load()
    assert read.where("cast(key as string) = cast(value as string)").count() == ROWS + 100


def test_an_epoch_that_is_repeated_is_written_once(
    spark: SparkSession, server: MortalServer, pipeline: Pipeline
) -> None:
    pipeline.run(spark)
    for _ in range(2):
        pipeline.forget_last_commit()
        pipeline.run(spark)
    assert_each_once(server, pipeline, ROWS)


def test_without_the_key_a_repeated_epoch_is_written_twice(
    spark: SparkSession, server: MortalServer, pipeline: Pipeline
) -> None:
    for faulty in FAULTY:
        spark.dataSource.register(faulty)
    keyless = pipeline._replace(sink="keyless")
    keyless.run(spark)
    keyless.forget_last_commit()
    keyless.run(spark)
    found = copies(server, pipeline)
    assert len(found) == ROWS and Counter(found.values()) == {1: ROWS - EPOCH_ROWS, 2: EPOCH_ROWS}


def test_a_task_that_is_killed_leaves_nothing_behind_that_is_seen(
    spark: SparkSession, server: MortalServer, pipeline: Pipeline, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    try:
        kill = killing_once(str(tmp_path / "killed"))
        pipeline.run(spark, lambda rows: rows.mapInArrow(kill, "key binary, value binary"), batchRows="20")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert (tmp_path / "killed").exists()
    assert_each_once(server, pipeline, ROWS)


def test_a_query_that_fails_gives_its_stages_up(spark: SparkSession, server: MortalServer, pipeline: Pipeline) -> None:
    def failing(rows: DataFrame) -> DataFrame:
        return rows.where("value != binary('2345') or raise_error('not this time') is null")

    with pytest.raises(StreamingQueryException, match="not this time"):
        pipeline.run(spark, failing, batchRows="10")
    assert copies(server, pipeline).total() % EPOCH_ROWS == 0
    pipeline.run(spark)
    assert_each_once(server, pipeline, ROWS)


def test_a_broker_that_is_killed_is_waited_for(spark: SparkSession, server: MortalServer, pipeline: Pipeline) -> None:
    query = pipeline._replace(max_offsets=EPOCH_ROWS // 20).start(spark)
    try:
        for _ in range(2):
            _until_some_are_written(server, pipeline, query)
            server.kill()
            server.start()
        query.awaitTermination()
    finally:
        query.stop()
    assert_each_once(server, pipeline, ROWS)


def _until_some_are_written(server: MortalServer, pipeline: Pipeline, query: StreamingQuery) -> None:
    before = written(server, pipeline)
    while written(server, pipeline) == before:
        assert query.isActive, "it has written all it had"
        time.sleep(0.02)


def test_a_driver_that_is_killed_before_or_after_its_commit_writes_once(
    server: MortalServer, pipeline: Pipeline
) -> None:
    for sink in ("dying-before-commit", "dying-after-commit"):
        run_driver(pipeline._replace(sink=sink, max_offsets=ROWS), is_killed=True)
    assert copies(server, pipeline).total() == ROWS
    run_driver(pipeline._replace(max_offsets=ROWS), is_killed=False)
    assert_each_once(server, pipeline, ROWS)


def test_a_full_queue_slows_a_write_down_until_there_is_room(
    spark: SparkSession, server: MortalServer, pipeline: Pipeline
) -> None:
    server.http.create_group(pipeline.output, "readers")
    server.http.update_queue(pipeline.output, {"limits": {"max_queue_depth": 1500}})
    query = pipeline.start(spark)
    try:
        _until_some_are_written(server, pipeline, query)
        assert not query.awaitTermination(2) and query.isActive
        server.http.update_queue(pipeline.output, {"limits": {"max_queue_depth": 10 * ROWS}})
        query.awaitTermination()
    finally:
        query.stop()
    assert_each_once(server, pipeline, ROWS)


def test_a_full_queue_ends_a_write_that_may_not_wait_with_the_reason(
    spark: SparkSession, server: MortalServer, pipeline: Pipeline
) -> None:
    server.http.create_group(pipeline.output, "readers")
    server.http.update_queue(pipeline.output, {"limits": {"max_queue_depth": 1500}})
    with pytest.raises(StreamingQueryException, match="queue-full"):
        pipeline.run(spark, waitSeconds="1")
    assert copies(server, pipeline).total() == EPOCH_ROWS


def test_a_new_checkpoint_under_a_known_name_is_refused_unless_it_is_reset(
    spark: SparkSession, server: MortalServer, pipeline: Pipeline
) -> None:
    pipeline.run(spark, pipeline=pipeline.name)
    pipeline.forget()
    with pytest.raises(StreamingQueryException, match=pipeline.name):
        pipeline.run(spark, pipeline=pipeline.name)
    assert_each_once(server, pipeline, ROWS)
    pipeline.run(spark, pipeline=pipeline.name, resetPipeline="true")
    assert set(copies(server, pipeline).values()) == {2}


def test_a_batch_is_written_whole_with_headers_topics_and_partitions(spark: SparkSession, server: MortalServer) -> None:
    server.http.create_queue("letters", {"partitions": 3})
    rows = spark.range(0, 1000, 1, 4).selectExpr(
        "string(id) as key",
        "concat('v', id) as value",
        "if(id % 2 = 0, 'sensors/1', null) as topic",
        "map('a', string(id)) as headers",
        "int(id % 3) as partition",
    )
    given = {"url": server.flight_url, "queue": "letters"}
    rows.write.format("penstock").options(**given).mode("append").save()
    rows.limit(1).write.format("penstock").options(**given).mode("append").save()
    until_end(server.data, "letters", 1001)
    with FlightClient(server.flight_url) as client:
        ends = [one.end for one in client.partitions("letters")]
        columns = ["key", "value", "topic", "headers", "partition"]
        found = [
            row
            for number, end in enumerate(ends)
            for batch in client.read("letters", number, 0, end, columns)
            for row in batch.to_pylist()
        ]
    assert len(found) == 1001
    for row in found:
        number = int(row["key"])
        assert row["value"] == b"v%d" % number and row["partition"] == number % 3
        assert row["headers"] == [{"key": "a", "value": str(number).encode()}]
        assert row["topic"] == ("sensors/1" if number % 2 == 0 else "$queue/letters")


def test_what_cannot_be_written_is_refused_by_name(spark: SparkSession, server: MortalServer) -> None:
    rows, given = spark.range(3), {"url": server.flight_url, "queue": "letters"}
    server.http.create_queue("letters", if_absent=True)
    writing = rows.write.format("penstock").options(**given).mode("append")
    with pytest.raises(PySparkException, match="unknown column 'id'"):
        writing.save()
    values = rows.selectExpr("string(id) as value").write.format("penstock").mode("append")
    with pytest.raises(PySparkException, match="did you mean queue"):
        values.options(url=server.flight_url, topic="letters").save()
    with pytest.raises(PySparkException, match="appended to and never replaced"):
        values.options(**given).mode("overwrite").save()
