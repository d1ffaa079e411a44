"""What a user's program does with queues in a session of Spark Connect, which shares a process with no other kind of
session: `python -m tests.spark.connect_queries REMOTE DATA FLIGHT CHECKPOINT`. Prints what it found as JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.source import PenstockSource


def copied(spark: SparkSession, flight: str, checkpoint: str) -> StreamingQuery:
    """All that is in `numbers` now, to `copies`."""
    rows = spark.readStream.format("penstock").option("url", flight).option("queue", "numbers").load()
    options = {"url": flight, "queue": "copies", "pipeline": "copying", "checkpointLocation": checkpoint}
    writing = rows.select("key", "value").writeStream.format("penstock").options(**options)
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def main(remote: str, data: str, flight: str, checkpoint: str) -> None:
    builder: SparkSession.Builder = SparkSession.builder
    spark = builder.remote(remote).getOrCreate()
    spark.dataSource.register(PenstockSource)
    numbers = spark.read.format("penstock").option("queue", "numbers").load(data)
    rows, of_one_partition = numbers.count(), numbers.where("partition = 1").count()
    queries = [copied(spark, flight, checkpoint) for _ in range(2)]
    streamed = [sum(one.numInputRows for one in query.recentProgress) for query in queries]
    spark.stop()
    print(json.dumps({"rows": rows, "of_one_partition": of_one_partition, "streamed": streamed}))


if __name__ == "__main__":
    main(*sys.argv[1:5])
