from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.clock_rounds import clock_rounds

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("shim")]


def test_what_waits_lasts_as_long_as_it_should_while_the_wall_clock_of_a_server_is_set(tmp_path: Path) -> None:
    assert clock_rounds(tmp_path, 1, 3, print) == 3
