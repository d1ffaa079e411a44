"""Sessions against a naive model, with restarts and crashes: seeded walks, see tests/support/session_walk.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.loop import run
from tests.support.session_walk import SessionWalk

WALKS, STEPS = 4, 200


@pytest.mark.parametrize("seed", range(WALKS))
def test_sessions_keep_what_was_acknowledged_and_forget_what_was_settled(tmp_path: Path, seed: int) -> None:
    walk = SessionWalk(seed, tmp_path, STEPS)
    run(walk.run())
    assert walk.values > STEPS // 3
