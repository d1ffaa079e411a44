"""A window takes the same rows as looking at each record would."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.log.window import Window
from penstock.log import batch as batches
from penstock.log.batch import Batch
from penstock.log.columns import Columns

BASE_OFFSET, BASE_MS = 100, 5000


def _batch(gaps: list[int], steps: list[int]) -> Batch:
    """Offsets with holes and times that stand still or go on."""
    offsets, times = array("i"), array("i")
    offset, time = -1, 0
    for gap, step in zip(gaps, steps, strict=True):
        offset, time = offset + gap, time + step
        offsets.append(offset)
        times.append(time)
    offsets.append(offset + 1)
    data = batches.build(Columns.of([b"x"] * len(gaps)), 0, times, offsets)
    batches.seal(data, BASE_OFFSET, 0, BASE_MS, BASE_MS + time)
    return Batch.parse(data)


bounds = st.none() | st.integers(0, 60)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=12), bounds, bounds, bounds, bounds
)
@settings(max_examples=200, deadline=None)
def test_rows_are_those_inside_every_bound(
    rows: list[tuple[int, int]], first: int | None, stop: int | None, since: int | None, until: int | None
) -> None:
    batch = _batch([gap for gap, _ in rows], [step for _, step in rows])
    window = Window(
        None if first is None else BASE_OFFSET + first,
        None if stop is None else BASE_OFFSET + stop,
        None if since is None else BASE_MS + since,
        None if until is None else BASE_MS + until,
    )
    expected = [
        i
        for i, row in enumerate(batch)
        if (window.first is None or row.offset >= window.first)
        and (window.stop is None or row.offset < window.stop)
        and (window.since_ms is None or row.timestamp >= window.since_ms)
        and (window.until_ms is None or row.timestamp < window.until_ms)
    ]
    assert list(window.rows(batch)) == expected


def test_a_scan_may_end_where_everything_behind_is_outside() -> None:
    assert Window(stop=10).ends_before(10, 0)
    assert not Window(stop=10).ends_before(9, 0)
    assert Window(until_ms=10).ends_before(0, 10)
    assert not Window(first=5, since_ms=5).ends_before(0, 0)
