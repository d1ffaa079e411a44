"""A declaration looked at by Spark: names, types, and whether a stream can do it. Nothing is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from penstock.spark.pipelines.analysis import placed
from penstock.spark.pipelines.compiling import Compiled, compile_pipeline
from penstock.spark.pipelines.declaration import Mode
from penstock.spark.pipelines.session import pipeline_session
from penstock.spark.pipelines.sinks import rows_of

if TYPE_CHECKING:
    from penstock.spark.pipelines.reading import Document

_CHECKER = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
_MODES = {"append": "Append", "update": "Update", "complete": "Complete"}


def check_with_spark(document: Document) -> None:
    """BadPipeline for the first thing that Spark refuses. Takes as long as a session takes to start."""
    with pipeline_session(document) as session:
        check_in_session(session, document)


def check_in_session(session: SparkSession, document: Document) -> Compiled:
    """All of it compiled, as it can be started."""
    compiled = compile_pipeline(session, document)
    for name, sink in document.pipeline.sinks.items():
        rows = rows_of(compiled, name)
        with placed(document, sink, "mode"):
            _check_operations(session, rows, sink.mode)
    return compiled


def _check_operations(session: SparkSession, rows: DataFrame, mode: Mode) -> None:
    """What Spark itself looks at when a query starts. A server of Spark Connect does so only then."""
    if is_remote():
        return
    jvm = session._jvm
    output = getattr(getattr(jvm, "org.apache.spark.sql.streaming.OutputMode"), _MODES[mode])()
    getattr(jvm, _CHECKER).checkForStreaming(rows._jdf.queryExecution().analyzed(), output)
