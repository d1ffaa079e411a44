from __future__ import annotations

import subprocess
import sys

import penstock.kernels


def test_mutated_bytes_are_accepted_or_refused_and_never_read_outside() -> None:
    count = 10_000 if penstock.kernels.compiled() else 500
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.kernels_fuzz", "--count", str(count), "--seed", "7"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "accepted" in ended.stdout
