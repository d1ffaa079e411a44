"""A real power cut under load over MQTT: a copy of the image that a server is at work in holds only what reached the
medium."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.mqtt_rounds import mqtt_power_cut_rounds

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("mounts")]


def test_power_cuts_change_nothing_that_was_said_over_mqtt(tmp_path: Path) -> None:
    found = mqtt_power_cut_rounds(tmp_path, seed=1, rounds=3)
    assert found.crashes >= 3
    assert min(found.messages, found.sent_again, found.duplicates) > 10


def test_a_server_that_does_not_sync_is_found_out(tmp_path: Path) -> None:
    """By a broken promise, or by a directory that the next one cannot open."""
    with pytest.raises(AssertionError):
        mqtt_power_cut_rounds(tmp_path, seed=1, rounds=3, arguments=("--lie",))
