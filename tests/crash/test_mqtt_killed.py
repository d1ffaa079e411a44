"""kill -9 in a loop under load over MQTT: nothing acknowledged is lost to any session or queue, QoS 2 comes once, order
is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.mqtt_rounds import mqtt_kill_rounds

pytestmark = pytest.mark.faults


def test_killed_servers_keep_what_they_said_over_mqtt(tmp_path: Path) -> None:
    found = mqtt_kill_rounds(tmp_path, seed=1, rounds=6)
    assert found.crashes >= 6
    assert min(found.messages, found.sent_again, found.duplicates) > 10
