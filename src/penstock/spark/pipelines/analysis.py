"""What Spark says of a query or an expression, as a problem with its place in the file."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from penstock.core.errors import PenstockError
from penstock.core.marked_yaml import Mark
from penstock.spark.pipelines.declaration import Declared
from penstock.spark.pipelines.document import Document
from penstock.spark.pipelines.problems import BadPipeline, Problem
from penstock.spark.pipelines.written import mark_inside

# PySpark logs what it raises as well, with the JVM's whole stack.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)

_IN_LINE = re.compile(r"\(line (\d+), pos (\d+)\)|; line (\d+) pos (\d+)")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_MOST_CHARACTERS = 600


@contextmanager
def placed(document: Document, declared: Declared, key: str, text: str | None = None) -> Iterator[None]:
    """Errors of Spark, of Penstock and of users' functions become BadPipeline, about this key; `text` is the SQL in
    it, if it is some."""
    try:
        yield
    except BadPipeline:
        raise
    except Exception as error:
        # A user's function may raise anything.
        mark = _mark(document, declared, key, text, error)
        problem = Problem(declared.places.path_of(key), told(error), mark)
        raise BadPipeline(str(document.file), [problem]) from error


def analyse(frame: DataFrame) -> None:
    """Now: Spark Connect would not look at it before it runs."""
    frame.schema.simpleString()


def told(error: Exception) -> str:
    """In a line or two: without plans, stacks and states."""
    if isinstance(error, PySparkException | PenstockError):
        text = _STATE.sub("", str(error)).split("\n\n")[0]
    else:
        text = f"{type(error).__name__}: {error}"
    line = " ".join(text.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"


def _mark(document: Document, declared: Declared, key: str, text: str | None, error: Exception) -> Mark | None:
    at = declared.places.values.get(key)
    if at is None or text is None or (offset := _offset(error, text)) is None:
        return at or declared.places.at
    return mark_inside(document.text, text, at, declared.places.styles.get(key), offset)


def _offset(error: Exception, text: str) -> int | None:
    """Where in the SQL it is wrong, as far as Spark says so."""
    if isinstance(error, PySparkException):
        for context in error.getQueryContext() or ():
            if context.fragment() in text:
                return int(context.startIndex())
    if (found := _IN_LINE.search(str(error))) is None:
        return None
    line, position = (int(number) for number in found.groups() if number is not None)
    lines = text.split("\n")[: line - 1]
    return min(sum(len(one) + 1 for one in lines) + position, len(text) - 1)
