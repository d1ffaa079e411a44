"""Damage of one file of any kind, each walk with its own seed. `make soak` runs as many seeds as one likes."""

from __future__ import annotations

import pytest
from tests.sim.damage_walk import failure_of

SEEDS, SEEDS_A_TEST = 300, 75


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_nothing_is_missing_without_being_told(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        if (failure := failure_of(seed)) is not None:
            pytest.fail(failure)


@pytest.mark.parametrize(
    "seed",
    [239, 273, 1399, 10548, 11759],
    ids=[
        "a copy whose first writing was cut off is written at the next opening",
        "the only journal file is gone",
        "a segment that is gone is told by the fault of its log",
        "a damaged segment that the journal cuts",
        "a short segment that the journal cuts",
    ],
)
def test_walks_that_failed_once_hold(seed: int) -> None:
    assert failure_of(seed) is None
