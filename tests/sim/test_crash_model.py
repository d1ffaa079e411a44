"""Crashes, faults and stops of every kind, each walk with its own seed. `make soak` runs as many seeds as one likes."""

from __future__ import annotations

import pytest
from tests.sim.soak_crash import failure_of

SEEDS = 3000
SEEDS_A_TEST = 250


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_what_was_acknowledged_survives_and_nothing_else_appears(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        if (failure := failure_of(seed)) is not None:
            pytest.fail(failure)


@pytest.mark.parametrize("seed", [60_075_681], ids=["a file cut off while its checkpoint is written is not synced"])
def test_walks_that_failed_once_hold(seed: int) -> None:
    assert failure_of(seed) is None
