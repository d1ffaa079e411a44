"""kill -9 in a loop while a sink commits epochs, small and large, and replays the one that was under way."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.crash.staging_worker import QUEUES, noted, rows_of
from tests.support.broker import Stage
from tests.support.faults import kill, python, wait_until
from tests.support.loop import run
from tests.support.staging import stored

pytestmark = pytest.mark.faults

EPOCHS, ROUNDS = 60, 6


def test_a_sink_that_replays_through_kills_stores_every_row_exactly_once(tmp_path: Path) -> None:
    rng, directory, notes = random.Random(1), tmp_path / "data", tmp_path / "notes"
    errors = tmp_path / "errors"
    for number in range(ROUNDS):
        process = python("-m", "tests.crash.staging_worker", directory, notes, str(EPOCHS), errors=errors)
        stop = min(EPOCHS - 1, number * EPOCHS // ROUNDS + rng.randrange(1, 9))
        try:
            wait_until(lambda: process.poll() is not None or noted(notes) >= stop, f"{stop} epochs")  # noqa: B023
        finally:
            kill(process)
        assert not errors.read_text(), errors.read_text()
    process = python("-m", "tests.crash.staging_worker", directory, notes, str(EPOCHS), errors=errors)
    try:
        assert process.wait(120) == 0, errors.read_text()
    finally:
        kill(process)
    run(_check(directory))


async def _check(directory: Path) -> None:
    s = Stage(directory)
    await s.open()
    try:
        for name in QUEUES:
            wanted = sorted(row for epoch in range(EPOCHS) for row in rows_of(epoch, name))
            assert await stored(s, name) == wanted
    finally:
        await s.broker.close()
