"""kill -9 in a loop while producing and consuming: nothing lost, nothing invented, order kept, and again comes only
what was not settled."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.queue_rounds import queue_kill_rounds

pytestmark = pytest.mark.faults


def test_killed_brokers_keep_what_they_said_of_messages(tmp_path: Path) -> None:
    found = queue_kill_rounds(tmp_path, seed=1, rounds=8)
    assert found.crashes >= 8
    assert min(found.messages, found.redelivered, found.stale, found.letters) > 10
