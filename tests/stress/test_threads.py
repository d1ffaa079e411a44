from __future__ import annotations

from pathlib import Path

from tests.stress.threads import stress
from tests.support.loop import run


def test_threads_housekeeping_and_readers_get_in_nobodys_way(tmp_path: Path) -> None:
    said = run(stress(tmp_path, seconds=4.0, seed=1))
    assert "commits" in said
