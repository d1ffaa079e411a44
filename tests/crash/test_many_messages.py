"""Many small messages through the command line, all of them read back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.appends import many_messages

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_every_small_message_is_read_back(tmp_path: Path, compression: str) -> None:
    assert many_messages(tmp_path / "data", 10_000, compression) == 10_000
