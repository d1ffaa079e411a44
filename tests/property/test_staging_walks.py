"""Sinks that replay, brokers that crash: see tests/sim/staging_walk.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sim.staging_walk import StagingWalk
from tests.support.loop import run


@pytest.mark.parametrize("seed", range(12))
def test_every_committed_epoch_is_stored_exactly_once(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        walk = StagingWalk(seed, tmp_path)
        try:
            await walk.run()
        except Exception as error:
            error.add_note(f"seed {seed}: {walk.trace}")
            raise

    run(main())
