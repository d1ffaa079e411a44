"""Clients that only cost memory, tens of them; `make soak` has thousands."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stress.http_deaf import exhaust_http

pytestmark = pytest.mark.faults


def test_clients_that_give_nothing_cost_no_more_than_the_budget(tmp_path: Path) -> None:
    exhaust_http(tmp_path, 60)
