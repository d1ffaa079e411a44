"""A database on a real disk for each test; a small journal, so that opening costs little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.broker.broker import BrokerOptions
from penstock.log.journal.journal import JournalOptions
from penstock.log.options import ShardOptions

JOURNAL = JournalOptions(file_bytes=1 << 20, limit_bytes=64 << 20, max_frame_bytes=512 << 10)
SMALL = BrokerOptions(shard=ShardOptions(journal=JOURNAL, disk_reserve_bytes=0))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def db(directory: Path) -> Iterator[penstock.Database]:
    with penstock.open(directory, options=SMALL) as opened:
        yield opened
