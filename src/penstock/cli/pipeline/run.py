"""`penstock pipeline run`: a declared pipeline at work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from penstock.cli.pipeline.board import board_of
from penstock.cli.pipeline.file import checked, file_argument, need_spark, telling_problems
from penstock.core.errors import UnsupportedPlatform

if TYPE_CHECKING:
    from penstock.spark.pipelines.document import Document


@click.command()
@file_argument
@click.option("--once", is_flag=True, help="Process all available messages and exit, like `trigger: once`.")
@click.option(
    "--reset",
    is_flag=True,
    help="Start over with new checkpoints, even if this pipeline has written to its target queues before.",
)
@click.option("--master", metavar="MASTER", help="Spark master to use: 'local[2]', spark://HOST:7077.")
@click.option("--remote", metavar="URL", help="Spark Connect server to use: sc://HOST:15002.")
@telling_problems
def run(file: Path, once: bool, reset: bool, master: str | None, remote: str | None) -> int:
    """Run a declared pipeline until SIGTERM or Ctrl-C, or with --once until all available messages are processed.

    The whole declaration is checked before anything starts. Each sink is a query that continues from its checkpoint.
    Progress and lag are shown on a terminal, or else logged to standard error. A signal stops the pipeline after the
    micro-batch being written; a second signal stops it at once. Exit codes: 0 when it ended or was stopped, 1 if a sink
    failed, 2 for errors in the declaration.

    \b
    Examples:
      penstock pipeline run devices.yaml
      penstock pipeline run devices.yaml --once
      penstock pipeline run devices.yaml --master 'local[4]'
    """
    if master is not None and remote is not None:
        raise click.UsageError("--master and --remote exclude each other: give one of them")
    document, oddities = checked(file, master, remote)
    for line in oddities:
        click.echo(f"penstock: warning: {file}: {line}", err=True)
    need_spark()
    _run(document, once, reset)
    return 0


def _run(document: Document, is_once: bool, reset: bool) -> None:
    from penstock.spark.pipelines.session import pipeline_session
    from penstock.spark.pipelines.session_check import check_in_session
    from penstock.spark.pipelines.sinks import SinkOptions, running_of

    with (
        _spark_may_end(),
        pipeline_session(document) as session,
        # Behind the start of the session, which sets a handler of its own that interrupts whatever is done.
        _stopped_by_signals() as (stopping, hurrying),
        board_of(document.pipeline.name) as board,
    ):
        running = running_of(check_in_session(session, document), SinkOptions(is_once, reset), board)
        running.stopping, running.hurrying = stopping, hurrying
        running.run()


@contextmanager
def _spark_may_end() -> Iterator[None]:
    """A JVM that was killed or ran out of memory cannot be begun again in this process; nor does a server of Spark
    Connect that was started again know the session."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    from penstock.spark.pipelines.failures import failure_reason

    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise UnsupportedPlatform(
            f"Spark's JVM ended ({error}): look at its lines above and at the memory of this machine, then run it "
            f"again; it continues where it stopped"
        ) from error
    except (Py4JError, PySparkException) as error:
        reason = failure_reason(str(error))
        raise UnsupportedPlatform(f"Spark failed: {reason}; run it again to continue") from error


@contextmanager
def _stopped_by_signals() -> Iterator[tuple[threading.Event, threading.Event]]:
    """The first one sets the first event, the next one both."""
    stopping, hurrying = threading.Event(), threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            hurrying.set()
        stopping.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping, hurrying
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
