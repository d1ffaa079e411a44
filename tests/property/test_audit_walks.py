"""Whatever publishers, consumers, sinks and accidents do to a broker, an audit of what it leaves finds nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.sim.queue_walk import QueueWalk
from tests.sim.staging_walk import StagingWalk
from tests.support.auditing import silent
from tests.support.loop import run

_EVERY_STEPS = 20


class _AuditedQueueWalk(QueueWalk):
    steps_done = 0

    async def _step(self) -> None:
        await super()._step()
        self.steps_done += 1
        if self.steps_done % _EVERY_STEPS == 0:
            await asyncio.to_thread(silent, self.stage.directory)


class _AuditedStagingWalk(StagingWalk):
    async def _check(self) -> None:
        await super()._check()
        await asyncio.to_thread(silent, self.stage.directory)


@pytest.mark.parametrize("seed", range(100, 108))
def test_an_audit_is_silent_on_what_groups_leave(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        walk = _AuditedQueueWalk(seed, tmp_path, 300)
        await walk.run()
        silent(walk.stage.directory)

    run(main())


@pytest.mark.parametrize("seed", range(100, 106))
def test_an_audit_is_silent_on_what_sinks_leave(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        walk = _AuditedStagingWalk(seed, tmp_path, 30)
        await walk.run()
        silent(walk.stage.directory)

    run(main())
