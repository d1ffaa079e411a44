"""A gateway on a real socket for each test that asks for one. Its files are in memory where that can be had: nothing
here is about syncs, and a hundred of them in a test are most of its time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http_gateway import RunningHttp, running_http
from tests.support.mqtt_gateway import RunningGateway, running

_MEMORY = Path("/dev/shm")


@pytest.fixture
def mqtt() -> Iterator[RunningGateway]:
    with (
        tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory,
        running(Path(directory)) as made,
    ):
        yield made


@pytest.fixture
def http() -> Iterator[RunningHttp]:
    with (
        tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory,
        running_http(Path(directory)) as made,
    ):
        yield made
