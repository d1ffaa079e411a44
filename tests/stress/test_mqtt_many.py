"""Many messages through one queue over MQTT."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.stress.mqtt_queue import through_queue
from tests.support.live_server import live_server

pytestmark = pytest.mark.faults


def test_every_message_through_a_queue_comes_once_and_in_order(tmp_path: Path) -> None:
    with live_server(tmp_path / "server", ["storage.disk_reserve=0"]) as server:
        asyncio.run(through_queue(server.address, 10_000))
