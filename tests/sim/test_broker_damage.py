"""Damage of one file of a broker's directory, each walk with its own seed. `make soak` runs as many seeds as one
likes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sim.broker_damage_walk import failure_of

SEEDS, SEEDS_A_TEST = 24, 8


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_a_broker_starts_and_nothing_is_missing_or_back_without_being_told(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        if (failure := failure_of(tmp_path / str(seed), seed)) is not None:
            pytest.fail(failure)
