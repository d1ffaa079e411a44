"""Mutated packets and sessions through a live server, with a client beside them that must notice nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fuzz.mqtt_live import SETTINGS, besiege
from tests.support.live_server import live_server

pytestmark = pytest.mark.faults


def test_garbage_ends_its_own_connection_and_costs_nothing_else(tmp_path: Path) -> None:
    with live_server(tmp_path / "server", SETTINGS) as server:
        found = asyncio.run(besiege(server, seed=1, mutants=2_000))
    assert min(found.endings["refused"], found.endings["taken"]) > 100
