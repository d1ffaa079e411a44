"""A declared pipeline that a command is given: loaded and checked, or its mistakes told."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import click

from penstock.core.errors import UnsupportedPlatform

if TYPE_CHECKING:
    from penstock.spark.pipelines.document import Document

BAD_PIPELINE = 2
Arguments = ParamSpec("Arguments")

file_argument = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))


def checked(file: Path, master: str | None = None, remote: str | None = None) -> tuple[Document, list[str]]:
    """With what is odd about it. BadPipeline with all that is wrong. Another Spark than the declaration's may be named:
    what is installed there is no matter of this machine."""
    from penstock.spark.pipelines.checks import load_and_check

    return load_and_check(file, lambda document: _elsewhere(document, master, remote))


def _elsewhere(document: Document, master: str | None, remote: str | None) -> Document:
    spark = document.pipeline.spark
    if remote is not None:
        spark = replace(spark, remote=remote)
    elif master is not None:
        spark = replace(spark, master=master, remote=None)
    return replace(document, pipeline=replace(document.pipeline, spark=spark))


def telling_problems(command: Callable[Arguments, int | None]) -> Callable[Arguments, int]:
    """A line for each thing that is wrong with the file, and the exit code of a bad configuration."""

    @functools.wraps(command)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        from penstock.spark.pipelines.problems import BadPipeline

        try:
            return command(*args, **kwargs) or 0
        except BadPipeline as error:
            for line in error.lines():
                click.echo(f"penstock: error: {line}", err=True)
            return BAD_PIPELINE

    return called


def need_spark() -> None:
    """UnsupportedPlatform where PySpark is not installed."""
    try:
        import pyspark  # noqa: F401  # asked for, not used
    except ImportError as error:
        raise UnsupportedPlatform(f"Spark is not installed ({error}): pip install 'penstock[spark]'") from error


def has_spark(is_remote: bool = False) -> bool:
    """PySpark, and a Java for it unless another machine has it."""
    from penstock.spark.java import java_home

    try:
        need_spark()
        if not is_remote:
            java_home()
    except UnsupportedPlatform:
        return False
    return True
