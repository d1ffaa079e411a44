"""A declared pipeline run from Python, in a session that is there."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.spark.pipelines.board import LogBoard
from penstock.spark.pipelines.checks import check
from penstock.spark.pipelines.document import load
from penstock.spark.pipelines.runner import Board, Running
from penstock.spark.pipelines.session_check import check_in_session
from penstock.spark.pipelines.sinks import SinkOptions, running_of


def pipeline_in(
    session: SparkSession, file: Path, *, once: bool = False, reset: bool = False, board: Board | None = None
) -> Running:
    """The pipeline of a file, checked, not started: run() runs it, and ends when `stopping` is set. BadPipeline with
    everything that is wrong; `spark` of the declaration is not used."""
    document = load(file)
    check(document)
    shown = board or LogBoard(document.pipeline.name)
    return running_of(check_in_session(session, document), SinkOptions(once, reset), shown)
