"""A server in development mode for all tests of a module, emptied after each. Its files are in memory where that can be
had: nothing here is about syncs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http_client import HttpClient
from tests.support.http_server import RunningServer, running_server

_MEMORY = Path("/dev/shm")


@pytest.fixture
def place() -> Iterator[Path]:
    """For a server of one test."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningServer]:
    with (
        tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory,
        running_server(Path(directory)) as made,
    ):
        yield made


@pytest.fixture
def server(shared: RunningServer) -> Iterator[RunningServer]:
    """Without queues, when the test begins."""
    yield shared
    shared.forget()


@pytest.fixture
def http(server: RunningServer) -> HttpClient:
    return server.http()
