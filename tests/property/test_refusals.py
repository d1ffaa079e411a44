"""Calls that are refused change nothing: seeded walks, see tests/sim/refusal_walk.py. Many more: the part `refusals` of
`python -m tests.soak`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sim.refusal_walk import refusal_walk

WALKS, STEPS = 6, 150


@pytest.mark.parametrize("seed", range(WALKS))
def test_a_refused_call_changes_nothing(tmp_path: Path, seed: int) -> None:
    refusal_walk(tmp_path / "data", seed, STEPS)
