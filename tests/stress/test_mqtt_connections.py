"""Idle connections cost little, and nobody else anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stress.mqtt_connections import costs

pytestmark = pytest.mark.faults

# Measured: 7 to 9 KiB. amqtt, the broker in Python that there was, takes 51 KB.
MOST_BYTES = 24 << 10


def test_five_hundred_idle_connections_take_little_memory(tmp_path: Path) -> None:
    found = {cost.name: cost.bytes_each for cost in costs(tmp_path, 500)}
    assert found["penstock"] < MOST_BYTES
