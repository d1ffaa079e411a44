"""A declared pipeline that a command is given: loaded and checked, or its mistakes told."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import click

from penstock.core.errors import UnsupportedPlatform

if TYPE_CHECKING:
    from penstock.spark.pipelines.reading import Document

BAD_PIPELINE = 2
Arguments = ParamSpec("Arguments")

file_argument = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))


def checked(file: Path) -> tuple[Document, list[str]]:
    """With what is odd about it. BadPipeline with all that is wrong."""
    from penstock.spark.pipelines.checking import check
    from penstock.spark.pipelines.reading import load

    document = load(file)
    return document, check(document)


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
        raise UnsupportedPlatform(f"this needs Spark ({error}): pip install 'penstock[spark]'") from error


def has_spark() -> bool:
    """PySpark, and a Java for it."""
    from penstock.spark.java import java_home

    try:
        need_spark()
        java_home()
    except UnsupportedPlatform:
        return False
    return True
