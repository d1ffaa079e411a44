"""A gateway on a real disk and a real socket for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.mqtt_gateway import RunningGateway, running


@pytest.fixture
def mqtt(tmp_path: Path) -> Iterator[RunningGateway]:
    with running(tmp_path) as made:
        yield made
