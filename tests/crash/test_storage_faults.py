"""Faults in every system call of storage, times a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.storage_faults import storage_fault_rounds

pytestmark = pytest.mark.faults


def test_nothing_acknowledged_is_missing_and_nothing_settled_comes_back(tmp_path: Path) -> None:
    said: list[str] = []
    happened = storage_fault_rounds(tmp_path, 1, 25, said.append)
    assert happened > 5, said  # how many there are is a matter of which thread comes first
