"""Tests pass beside a server on the default ports and under load; `make soak` runs all of them so."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stress.beside import SENSITIVE, beside

pytestmark = pytest.mark.faults


def test_tests_pass_beside_a_server_on_the_default_ports_and_under_load(tmp_path: Path) -> None:
    beside(tmp_path, SENSITIVE, 900.0)
