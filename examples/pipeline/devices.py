"""The pipeline of devices.yaml as a script: the same streams, written with Spark's own words.

python devices.py --data data --flight grpc://127.0.0.1:8815 --out out [--once]"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.spark.session import session_builder

SCHEMA = "device string, celsius double, at timestamp, malformed string"


def read(spark: SparkSession, data: Path) -> DataFrame:
    """Each message with what its JSON says, and the rule that it does not hold to."""
    messages = spark.readStream.format("penstock").option("path", str(data)).option("queue", "readings").load()
    row = F.from_json(F.col("value").cast("string"), SCHEMA, {"columnNameOfCorruptRecord": "malformed"})
    is_plausible = F.expr("row.device is not null and row.celsius between -60 and 150")
    rule = F.when(F.col("row").isNull() | F.col("row.malformed").isNotNull(), "malformed")
    return messages.select(F.col("value").cast("string").alias("value"), row.alias("row")).withColumn(
        "rule", rule.when(~F.coalesce(is_plausible, F.lit(False)), "plausible")
    )


def per_minute(readings: DataFrame) -> DataFrame:
    good = readings.where("rule is null").select("row.device", "row.celsius", "row.at")
    return (
        good.withWatermark("at", "10 seconds")
        .groupBy(F.window("at", "1 minute"), "device")
        .agg(
            F.count("*").alias("readings"),
            F.round(F.avg("celsius"), 2).alias("average"),
            F.max("celsius").alias("highest"),
        )
        .selectExpr("window.start window_start", "window.end window_end", "device", "readings", "average", "highest")
    )


def alerts(minutes: DataFrame) -> DataFrame:
    hot = minutes.where("highest > 80").selectExpr("device", "window_start as minute", "highest")
    return hot.select(F.col("device").alias("key"), F.to_json(F.struct("*")).alias("value"))


def rejects(readings: DataFrame) -> DataFrame:
    letter = F.struct("rule", F.lit("readings").alias("of"), F.col("value").alias("row"))
    return readings.where("rule is not null").select(F.col("rule").alias("key"), F.to_json(letter).alias("value"))


def to_queue(frame: DataFrame, queue: str, flight: str) -> DataStreamWriter:
    options = {"url": flight, "queue": queue, "pipeline": f"devices-script.{queue}"}
    return frame.writeStream.format("penstock").options(**options)


def writers(spark: SparkSession, data: Path, flight: str, out: Path) -> list[DataStreamWriter]:
    """One for each sink, with its checkpoint; to be triggered and started."""
    readings = read(spark, data)
    minutes = per_minute(readings)
    found = {
        "alerts": to_queue(alerts(minutes), "alerts", flight),
        "table": minutes.writeStream.format("parquet").option("path", str(out / "per_minute")),
        "rejects": to_queue(rejects(readings), "rejects", flight),
    }
    return [writer.option("checkpointLocation", str(out / "checkpoints" / name)) for name, writer in found.items()]


def run_once(sinks: list[DataStreamWriter]) -> None:
    """What is there now, one after the other."""
    for writer in sinks:
        writer.trigger(availableNow=True).start().awaitTermination()


def run_on(spark: SparkSession, sinks: list[DataStreamWriter]) -> None:
    """All together, until one fails."""
    for writer in sinks:
        writer.trigger(processingTime="1 second").start()
    spark.streams.awaitAnyTermination()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--flight", default="grpc://127.0.0.1:8815")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--once", action="store_true")
    given = parser.parse_args()
    spark = session_builder().config("spark.sql.shuffle.partitions", "4").getOrCreate()
    sinks = writers(spark, given.data.resolve(), given.flight, given.out.resolve())
    if given.once:
        run_once(sinks)
    else:
        run_on(spark, sinks)


if __name__ == "__main__":
    main()
