from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InvalidArgument
from penstock.queues.retry import MAX_DELAY_MS, MAX_RETRIES, backoff_table

DEFAULT = backoff_table(5_000, 300_000, 2.0, 10)


def test_the_default_policy_waits_as_documented() -> None:
    assert list(DEFAULT) == [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000, 300_000]


@given(
    st.integers(0, MAX_DELAY_MS), st.integers(0, MAX_DELAY_MS), st.floats(1, 1e300), st.sampled_from([0, 1, 7, 2_000])
)
@settings(max_examples=100, deadline=None)
def test_delays_never_fall_and_never_pass_the_greatest(
    first: int, second: int, multiplier: float, retries: int
) -> None:
    initial_ms, max_ms = sorted((first, second))
    table = backoff_table(initial_ms, max_ms, multiplier, retries)
    assert len(table) == retries
    assert list(table) == sorted(table)
    assert all(initial_ms <= delay_ms <= max_ms for delay_ms in table)


@pytest.mark.parametrize(
    ("initial_ms", "max_ms", "multiplier", "retries"),
    [
        (-1, 10, 2.0, 1),
        (11, 10, 2.0, 1),
        (1, MAX_DELAY_MS + 1, 2.0, 1),
        (1, 10, 0.5, 1),
        (1, 10, float("nan"), 1),
        (1, 10, float("inf"), 1),
        (1, 10, 2.0, -1),
        (1, 10, 2.0, MAX_RETRIES + 1),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(initial_ms: int, max_ms: int, multiplier: float, retries: int) -> None:
    with pytest.raises(InvalidArgument):
        backoff_table(initial_ms, max_ms, multiplier, retries)
