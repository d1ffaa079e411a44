"""The order in which files go to the workers: what is long comes first, so that no worker does it alone at the end."""

from __future__ import annotations

from pathlib import Path

_TESTS = Path(__file__).parents[1]

_LONG_FIRST = (
    "e2e",
    "crash",
    "stress",
    "sim",
    "judge",
    "differential",
    "conformance",
    # Its sessions of Spark stay until the end.
    "spark",
    "property",
    "unit/test_harness.py",
    "unit/bench_spark",
)
"""Folders and files below tests/; the many short ones of tests/unit fill what is left at the end."""


def place_of(file: Path) -> int:
    return next((n for n, long in enumerate(_LONG_FIRST) if file.is_relative_to(_TESTS / long)), len(_LONG_FIRST))
