"""The place of a value is found by its path."""

from __future__ import annotations

import pytest

from penstock.core.marked_yaml import Mark, mark_below, read_marked

TEXT = b"""a:
  spark.sql: [1, 2]
  b: {c: 3}
"""


@pytest.mark.parametrize(
    ("path", "mark"),
    [
        (".a.spark.sql", Mark(2, 14)),
        (".a.spark.sql[1]", Mark(2, 18)),
        (".a.b.c", Mark(3, 10)),
        (".a.b.d", Mark(3, 6)),
        ("", Mark(1, 1)),
    ],
)
def test_a_value_is_found_by_its_path_or_the_nearest_above_it(path: str, mark: Mark) -> None:
    marked = read_marked("file", TEXT)
    assert marked is not None and mark_below(marked, path) == mark
