"""Errors on their way to whoever runs a query: our own say all there is to say in one line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from penstock.core.errors import PenstockError
from penstock.spark.workers import ends_quietly

P = ParamSpec("P")
T = TypeVar("T")

# What Spark's workers look at when they report an exception, after which they end: pyspark.util.
_HIDE = "SPARK_HIDE_TRACEBACK"
# Every process that Spark plans, reads or writes in imports this.
ends_quietly()


def plainly(method: Callable[P, T]) -> Callable[P, T]:
    """A method that Spark calls in a process of its own. For our own errors Spark is told the line, not the calls that
    led to it."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except PenstockError:
            os.environ[_HIDE] = "1"
            raise

    return called


def plain_rows(rows: Iterator[T]) -> Iterator[T]:
    """The same for what comes one after the other."""
    try:
        yield from rows
    except PenstockError:
        os.environ[_HIDE] = "1"
        raise
