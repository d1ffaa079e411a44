"""A gateway on a real socket for each test that asks for one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.amqp_gateway import RunningAmqp, running_amqp

_MEMORY = Path("/dev/shm")


@pytest.fixture
def amqp() -> Iterator[RunningAmqp]:
    with (
        tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory,
        running_amqp(Path(directory)) as made,
    ):
        yield made
