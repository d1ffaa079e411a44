"""Whatever publishers, consumers, sinks and accidents do to a broker, an audit of what it leaves finds nothing."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.sim.queue_walk import QueueWalk
from tests.sim.staging_walk import StagingWalk
from tests.support.auditing import silent
from tests.support.broker import Stage
from tests.support.loop import run
from tests.support.session_walk import SessionWalk

_EVERY_STEPS = 20
_EVERY_CHECKS = 3
_COPIES = 20


async def _audited(stage: Stage) -> None:
    """The clock stands still, and with it the keeper, which a checkpoint makes tell readers of what has changed."""
    await stage.broker.shard.checkpoint()
    await asyncio.to_thread(silent, stage.directory)


class _AuditedQueueWalk(QueueWalk):
    steps_done = 0

    async def _step(self) -> None:
        await super()._step()
        self.steps_done += 1
        if self.steps_done % _EVERY_STEPS == 0:
            await _audited(self.world.stage)


class _AuditedStagingWalk(StagingWalk):
    checks_done = 0

    async def _check(self) -> None:
        await super()._check()
        self.checks_done += 1
        if self.checks_done % _EVERY_CHECKS == 0:
            await _audited(self.stage)

    def _copied(self) -> Path:
        """What is removed while it is copied makes a copy of two moments, which is no crash: copy again."""
        for _ in range(_COPIES):
            try:
                return super()._copied()
            except shutil.Error:
                shutil.rmtree(self.place / str(self.lives))
                self.lives -= 1
        return super()._copied()


@pytest.mark.parametrize("seed", range(100, 108))
def test_an_audit_is_silent_on_what_groups_leave(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        walk = _AuditedQueueWalk(seed, tmp_path, 300)
        await walk.run()
        silent(walk.world.stage.directory)

    run(main())


@pytest.mark.parametrize("seed", range(100, 106))
def test_an_audit_is_silent_on_what_sinks_leave(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        walk = _AuditedStagingWalk(seed, tmp_path, 30)
        await walk.run()
        silent(walk.stage.directory)

    run(main())


@pytest.mark.parametrize("seed", range(100, 103))
def test_an_audit_is_silent_on_what_sessions_leave(seed: int, tmp_path: Path) -> None:
    run(SessionWalk(seed, tmp_path, 150).run())
    left = [path for path in tmp_path.iterdir() if (path / "format").exists()]
    assert left
    for directory in left:
        silent(directory)
