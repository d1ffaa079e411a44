from __future__ import annotations

import os
import subprocess
import sys

import pytest

import penstock.kernels


def test_the_environment_makes_a_process_run_plain_python() -> None:
    program = "import penstock.kernels as k, penstock.kernels.crc as c; print(k.compiled(), c.crc32c is c.crc32c_table)"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PENSTOCK_PURE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.split() == ["False", "True"]


@pytest.mark.skipif(os.environ.get("PENSTOCK_PURE") != "1", reason="a run on compiled kernels")
def test_a_pure_run_is_pure() -> None:
    assert not penstock.kernels.compiled()
