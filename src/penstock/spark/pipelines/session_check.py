"""A declaration looked at by Spark: names, types, and whether a stream can do it. Nothing is started."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from penstock.core.errors import PenstockError
from penstock.spark.pipelines.analysis import placed, told
from penstock.spark.pipelines.compiled import Compiled, compile_parts
from penstock.spark.pipelines.declaration import Mode
from penstock.spark.pipelines.graph import feeding
from penstock.spark.pipelines.problems import BadPipeline, Problem
from penstock.spark.pipelines.session import pipeline_session
from penstock.spark.pipelines.sinks import rows_of
from penstock.spark.pipelines.sound_parts import standing

if TYPE_CHECKING:
    from penstock.spark.pipelines.checks import BadParts
    from penstock.spark.pipelines.document import Document

_CHECKER = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
_MODES = {"append": "Append", "update": "Update", "complete": "Complete"}


def check_with_spark(document: Document) -> None:
    """BadPipeline for all that Spark refuses. Takes as long as a session takes to start."""
    with pipeline_session(document) as session:
        check_in_session(session, document)


def more_with_spark(bad: BadParts) -> Iterator[Problem]:
    """What Spark refuses of the parts that stand: with what is wrong already, told in one pass."""
    if (rest := standing(bad.document, bad.problems)) is None:
        return
    try:
        with pipeline_session(rest.document) as session:
            check_in_session(session, rest.document, rest.used)
    except BadPipeline as more:
        yield from more.problems
    except (PenstockError, PySparkException) as error:
        # What is wrong with the declaration is not hidden by a session that does not start.
        yield Problem("spark", f"Spark has not looked at the rest: {told(error)}")


def check_in_session(session: SparkSession, document: Document, used: Collection[str] | None = None) -> Compiled:
    """All of it compiled, as it can be started. BadPipeline with everything that is wrong. `used`: as compile_parts()
    has it."""
    pipeline = document.pipeline
    compiled, problems = compile_parts(session, document, used)
    for name, sink in pipeline.sinks.items():
        if not compiled.frames.keys() >= set(feeding(pipeline, name)):
            continue
        try:
            rows = rows_of(compiled, name)
            with placed(document, sink, "mode"):
                _check_operations(session, rows, sink.mode)
        except BadPipeline as error:
            problems += error.problems
    if problems:
        raise BadPipeline(str(document.file), problems)
    return compiled


def _check_operations(session: SparkSession, rows: DataFrame, mode: Mode) -> None:
    """What Spark itself looks at when a query starts. A server of Spark Connect does so only then."""
    if is_remote():
        return
    jvm = session._jvm
    output = getattr(getattr(jvm, "org.apache.spark.sql.streaming.OutputMode"), _MODES[mode])()
    getattr(jvm, _CHECKER).checkForStreaming(rows._jdf.queryExecution().analyzed(), output)
