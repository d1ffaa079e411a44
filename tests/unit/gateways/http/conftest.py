"""A server for each test that asks for one. Its files are in memory where that can be had: nothing here is about
syncs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http_client import HttpClient
from tests.support.http_gateway import RunningServer, running_server

_MEMORY = Path("/dev/shm")


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        yield Path(directory)


@pytest.fixture
def server(place: Path) -> Iterator[RunningServer]:
    with running_server(place) as made:
        yield made


@pytest.fixture
def http(server: RunningServer) -> HttpClient:
    return server.http()
