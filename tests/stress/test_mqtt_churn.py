"""Clients that come and go without a word leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stress.mqtt_churn import churn

pytestmark = pytest.mark.faults


def test_memory_does_not_grow_with_connects_that_end_without_disconnect(tmp_path: Path) -> None:
    churn(tmp_path, 1_500)
