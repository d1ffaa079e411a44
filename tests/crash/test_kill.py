"""kill -9 in a loop: what was acknowledged is there, byte for byte, whole, and without holes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.appends import append_until, check_appended
from tests.crash.rounds import kill_rounds

pytestmark = pytest.mark.faults


def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    assert kill_rounds(tmp_path, seed=1, rounds=10).acknowledged > 500


@pytest.mark.parametrize("depth", [1, 16])
def test_a_killed_append_loses_nothing_that_it_printed(tmp_path: Path, depth: int) -> None:
    given: list[bytes] = []
    for number in range(4):
        printed = append_until(tmp_path / "data", 2000 + 700 * number, depth=depth, given=given)
        check_appended(tmp_path / "data", given, printed)
