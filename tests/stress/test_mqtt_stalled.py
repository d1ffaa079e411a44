"""Subscribers that do not read for seconds; `make soak` does it for minutes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.stress.mqtt_stalled import put_out, stall

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("run", [stall, put_out])
def test_who_does_not_read_harms_nobody_and_gets_everything_or_is_told(
    tmp_path: Path, run: Callable[[Path, float], str]
) -> None:
    run(tmp_path, 5.0)
