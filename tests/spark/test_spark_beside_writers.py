"""Spark reads the directory of a server that takes publishes, dies and comes back: whole rows that were decided, none
else, and in the end each that was acknowledged, once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.support.busy_writers import QUEUE, Book, busy_writers
from tests.support.mortal_server import mortal_server
from tests.support.numbered import until_end
from tests.support.whole_rows import who_and_which

from penstock.log.disk import RealDisk
from penstock.log.upkeep.checkpoint import read_checkpoint
from penstock.tables.table import QueueTable

_COLUMNS = "partition,offset,value"
_PARTITIONS = 3
_CHECKPOINTS = "storage.checkpoint_interval=500ms"
_DEADLINE_S = 120.0


class Stream:
    """To Parquet, micro-batch after micro-batch. One that was planned when the server died fails, clearly, and is done
    again from the checkpoint."""

    def __init__(self, spark: SparkSession, data: Path, place: Path) -> None:
        self._spark, self._data, self._place = spark, data, place
        self._query = self._start()

    @property
    def batches(self) -> int:
        return len(list((self._place / "checkpoint" / "commits").glob("[0-9]*")))

    def keep_going(self) -> None:
        if (error := self._query.exception()) is not None:
            self._started_again(error)

    def finish(self) -> pa.Table:
        """Every row that it wrote, once there is nothing left to read."""
        try:
            self._query.processAllAvailable()
        except StreamingQueryException as error:
            self._started_again(error)
            self._query.processAllAvailable()
        self.close()
        return self._spark.read.parquet(str(self._place / "rows")).toArrow()

    def close(self) -> None:
        self._query.stop()

    def _started_again(self, error: StreamingQueryException) -> None:
        assert "can be read up to offset" in str(error), error
        self._query = self._start()

    def _start(self) -> StreamingQuery:
        given = {"path": str(self._data), "queue": QUEUE, "columns": _COLUMNS, "maxOffsetsPerTrigger": "4000"}
        rows = self._spark.readStream.format("penstock").options(**given).load()
        writing = rows.writeStream.format("parquet").option("path", str(self._place / "rows"))
        checkpoint = str(self._place / "checkpoint")
        return writing.option("checkpointLocation", checkpoint).trigger(processingTime="50 milliseconds").start()


def _table(spark: SparkSession, data: Path) -> pa.Table:
    options = {"path": str(data), "queue": QUEUE, "columns": _COLUMNS}
    return spark.read.format("penstock").options(**options).load().toArrow()


def _check(rows: pa.Table, books: Iterable[Book]) -> Counter[tuple[str, int]]:
    """Who wrote which, and how often it is there: all whole, sent to be stored, and without a gap in the offsets."""
    for partition in range(_PARTITIONS):
        mine = rows.filter(pc.field("partition") == partition)
        assert sorted(mine.column("offset").to_pylist()) == list(range(mine.num_rows))
    found = Counter(who_and_which(value) for value in rows.column("value").to_pylist())
    assert found.keys() <= {(book.writer, number) for book in books for number in book.sent.copy()}
    return found


def _until(is_so: Callable[[], bool], stream: Stream) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline
        stream.keep_going()
        time.sleep(0.05)


def _is_checkpointed(data: Path) -> bool:
    """Whether a reader finds some of it while the server is away."""
    checkpoint, table = read_checkpoint(RealDisk(data)), QueueTable.open(data, QUEUE)
    with closing(table):
        logs = {partition.log for partition in table.partitions()}
    return checkpoint is not None and any(state.number in logs and state.end for state in checkpoint.logs)


def _acknowledged(books: Iterable[Book]) -> int:
    return sum(len(book.acknowledged) for book in books)


def test_what_spark_reads_beside_writers_is_whole_and_decided_and_in_the_end_complete(
    spark: SparkSession, tmp_path: Path
) -> None:
    with ExitStack() as streaming, mortal_server(tmp_path / "server", [_CHECKPOINTS]) as server:
        server.http.create_queue(QUEUE, {"partitions": _PARTITIONS, "limits": {"max_queue_depth": 0}})
        until_end(server.data, QUEUE, 0)
        with busy_writers(server) as books:
            stream = streaming.enter_context(closing(Stream(spark, server.data, tmp_path)))
            _check(_table(spark, server.data), books)
            _until(lambda: stream.batches >= 3 and _is_checkpointed(server.data), stream)
            server.kill()
            assert _check(_table(spark, server.data), books)
            before, batches = _acknowledged(books), stream.batches
            server.start()
            _until(lambda: _acknowledged(books) > before + 500 and stream.batches >= batches + 3, stream)
            _check(_table(spark, server.data), books)
        until_end(server.data, QUEUE, server.http.queue(QUEUE).messages)
        found = _check(stream.finish(), books)
        assert found == _check(_table(spark, server.data), books)
    assert set(found.values()) == {1}
    assert all((book.writer, number) in found for book in books for number in book.acknowledged)
    assert all(book.acknowledged for book in books if book.sent)
