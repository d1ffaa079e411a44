"""Queue to queue through Spark: each input number comes out as one message, counted."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.support.mortal_server import MortalServer
from tests.support.numbered import until_end

from penstock.client.flight import FlightClient

INPUT, OUTPUT = "numbers", "copies"
Step = Callable[[DataFrame], DataFrame]


class Pipeline(NamedTuple):
    """From a queue of numbers to one of copies; with the checkpoint of the run before."""

    url: str
    checkpoint: Path
    sink: str = "penstock"
    max_offsets: int = 1000

    def start(self, spark: SparkSession, step: Step | None = None, **options: str) -> StreamingQuery:
        """All that is there now, in micro-batches of `max_offsets`; options are the sink's."""
        given = {"url": self.url, "queue": INPUT, "maxOffsetsPerTrigger": str(self.max_offsets), "minPartitions": "2"}
        rows = spark.readStream.format("penstock").options(**given).load().select("key", "value")
        wanted = {"url": self.url, "queue": OUTPUT, "checkpointLocation": str(self.checkpoint), **options}
        writing = (rows if step is None else step(rows)).writeStream.format(self.sink).options(**wanted)
        return writing.trigger(availableNow=True).start()

    def run(self, spark: SparkSession, step: Step | None = None, **options: str) -> None:
        self.start(spark, step, **options).awaitTermination()

    def forget_last_commit(self) -> None:
        """As if the driver had died between the sink's commit and Spark's own: the epoch is done again."""
        last = max((self.checkpoint / "commits").glob("[0-9]*"), key=lambda each: int(each.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)

    def forget(self) -> None:
        shutil.rmtree(self.checkpoint)


def declare(server: MortalServer, rows: int, limit: int = 10_000_000) -> None:
    for queue in (INPUT, OUTPUT):
        server.http.create_queue(queue, {"partitions": 2, "limits": {"max_queue_depth": limit}})
    feed(server, range(rows))


def feed(server: MortalServer, numbers: range) -> None:
    """Seen by readers when it returns."""
    with FlightClient(server.flight_url) as client:
        for first in range(numbers.start, numbers.stop, 50_000):
            values = pa.array(range(first, min(first + 50_000, numbers.stop))).cast(pa.string())
            client.append(INPUT, pa.record_batch({"key": values, "value": values}))
    until_end(server.data, INPUT, numbers.stop)


def copies(server: MortalServer) -> Counter[int]:
    """How often each number was written; of what the server has taken, all is seen."""
    written = server.http.queue(OUTPUT).messages
    found: Counter[int] = Counter()
    with FlightClient(server.flight_url) as client:
        while sum(one.end - one.start for one in client.partitions(OUTPUT)) != written:
            time.sleep(0.02)
        for one in client.partitions(OUTPUT):
            for batch in client.read(OUTPUT, one.number, one.start, one.end, ["value"]):
                found.update(batch.column("value").cast(pa.string()).cast(pa.int64()).to_pylist())
    return found


def assert_each_once(server: MortalServer, rows: int) -> None:
    found = copies(server)
    assert len(found) == rows and set(found.values()) == {1}, found.most_common(3)
    assert min(found) == 0 and max(found) == rows - 1
