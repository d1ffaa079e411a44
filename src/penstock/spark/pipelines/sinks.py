"""Queries of sinks, as they are declared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.spark.pipelines.analysis import analyse, placed
from penstock.spark.pipelines.compiled import Compiled
from penstock.spark.pipelines.declaration import TO_JSON, Pipeline, Sink, Trigger
from penstock.spark.pipelines.part_checks import SINK_KINDS, connection_of
from penstock.spark.pipelines.runner import Board, Running, SinkQuery
from penstock.spark.pipelines.sources import connection_options, resolved


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a run says over the declaration."""

    is_once: bool = False
    reset: bool = False
    """a new checkpoint goes on with queues that another one wrote"""


def kind_of(sink: Sink) -> str:
    return next(kind for kind in SINK_KINDS if getattr(sink, kind))


def checkpoint_of(pipeline: Pipeline, name: str, directory: Path) -> str:
    sink = pipeline.sinks[name]
    return resolved(sink.checkpoint or f"{pipeline.checkpoints}/{name}", directory)


def trigger_of(pipeline: Pipeline, sink: Sink, options: SinkOptions) -> Trigger:
    return Trigger(is_once=True) if options.is_once else sink.trigger or pipeline.trigger


def running_of(compiled: Compiled, options: SinkOptions, board: Board) -> Running:
    """All sinks of a pipeline, to be run."""
    pipeline = compiled.document.pipeline
    sinks = [SinkQuery(name, partial(start_sink, compiled, name, options)) for name in pipeline.sinks]
    return Running(sinks, pipeline.restart, board, stop_timeout_s=pipeline.stop_timeout_ms / 1000)


def start_sink(compiled: Compiled, name: str, options: SinkOptions) -> StreamingQuery:
    """The query that writes it, begun. BadPipeline if Spark refuses it."""
    document = compiled.document
    pipeline = document.pipeline
    sink = pipeline.sinks[name]
    with placed(document, sink, kind_of(sink)):
        writer = _writer(rows_of(compiled, name), pipeline, name, options, document.directory)
        writer = writer.option("checkpointLocation", checkpoint_of(pipeline, name, document.directory))
        writer = _triggered(writer.queryName(f"{pipeline.name}.{name}"), trigger_of(pipeline, sink, options))
        return writer.toTable(sink.iceberg) if sink.iceberg is not None else writer.start()


def rows_of(compiled: Compiled, name: str) -> DataFrame:
    """What is written: of a queue messages, of others the rows as they are."""
    document, frame = compiled.document, compiled.written_by(name)
    sink = document.pipeline.sinks[name]
    if sink.queue is None:
        return frame
    columns = {"key": F.col("rule") if sink.from_ is None else None, "value": _value(frame, sink)}
    for key, text in {"key": sink.key, "topic": sink.topic}.items():
        if text is not None:
            with placed(document, sink, key, text):
                columns[key] = F.expr(text)
                analyse(frame.select(F.expr(text)))
    with placed(document, sink, "value", None if sink.value == TO_JSON else sink.value):
        given = {key: column for key, column in columns.items() if column is not None}
        return frame.select(*(_text(column, frame).alias(key) for key, column in given.items()))


def _value(frame: DataFrame, sink: Sink) -> Column:
    if sink.value != TO_JSON:
        return F.expr(sink.value)
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in frame.columns)))


def _text(column: Column, frame: DataFrame) -> Column:
    """Bytes as they are, all else as text."""
    kind = frame.select(column).schema.fields[0].dataType.typeName()
    return column if kind == "binary" else column.cast("string")


def _writer(rows: DataFrame, pipeline: Pipeline, name: str, options: SinkOptions, directory: Path) -> DataStreamWriter:
    sink = pipeline.sinks[name]
    writer = rows.writeStream.outputMode(sink.mode)
    if sink.queue is not None:
        return writer.format("penstock").options(**_queue_options(pipeline, name, options, directory))
    if sink.console:
        return writer.format("console").options(**{"truncate": "false", **sink.options})
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer = writer.format(kind_of(sink)).options(**sink.options)
    path = sink.parquet or sink.delta
    return writer if path is None else writer.option("path", resolved(path, directory))


def _queue_options(pipeline: Pipeline, name: str, options: SinkOptions, directory: Path) -> dict[str, str]:
    sink = pipeline.sinks[name]
    found = {
        **connection_options(connection_of(sink, pipeline.broker), directory, is_writing=True),
        "queue": str(sink.queue),
        "namespace": sink.namespace,
        "pipeline": f"{pipeline.name}.{name}",
        **sink.options,
    }
    return {**found, "resetPipeline": "true"} if options.reset else found


def _triggered(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    if trigger.is_once:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{trigger.every_ms} milliseconds")
