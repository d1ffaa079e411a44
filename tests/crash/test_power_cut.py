"""A real power cut: a copy of the image that a writer is at work in holds only what reached the medium."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.history import BrokenPromise
from tests.crash.rounds import power_cut_rounds
from tests.support.faults import shim_environment

from penstock.core.errors import PenstockError

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("mounts")]


def test_power_cuts_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    assert power_cut_rounds(tmp_path, seed=1, rounds=3).acknowledged > 100


def test_a_writer_that_does_not_sync_is_found_out(tmp_path: Path) -> None:
    with pytest.raises((BrokenPromise, PenstockError)):
        power_cut_rounds(tmp_path, seed=1, rounds=3, arguments=("--lie",))


@pytest.mark.usefixtures("shim")
def test_a_failed_sync_of_a_segment_loses_nothing_at_a_power_cut(tmp_path: Path) -> None:
    environment = shim_environment(tmp_path / "trace", watch=".seg", fail=".seg 3 1", loses=True)
    assert power_cut_rounds(tmp_path, seed=2, rounds=2, environment=environment).acknowledged > 100
    assert "log written anew" in (tmp_path / "errors").read_text()
