"""A real power cut while producing and consuming: a copy of the image that a broker is at work in holds only what
reached the medium."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.queue_rounds import queue_power_cut_rounds

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("mounts")]


def test_power_cuts_change_nothing_that_was_said_of_messages(tmp_path: Path) -> None:
    found = queue_power_cut_rounds(tmp_path, seed=1, rounds=3)
    assert found.crashes >= 3
    assert min(found.messages, found.redelivered, found.letters) > 10


def test_a_broker_that_does_not_sync_is_found_out(tmp_path: Path) -> None:
    """By a broken promise, or by a directory that the next one cannot open."""
    with pytest.raises(AssertionError):
        queue_power_cut_rounds(tmp_path, seed=1, rounds=3, arguments=("--lie",))
