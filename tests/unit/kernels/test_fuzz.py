from __future__ import annotations

import subprocess
import sys

import pytest

import penstock.kernels


@pytest.mark.parametrize(
    ("program", "compiled", "pure"), [("kernels_fuzz", 10_000, 500), ("amqp091_frames", 20_000, 500)]
)
def test_mutated_bytes_are_accepted_or_refused_and_never_read_outside(program: str, compiled: int, pure: int) -> None:
    count = compiled if penstock.kernels.compiled() else pure
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.fuzz.{program}", "--count", str(count), "--seed", "7"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "accepted" in ended.stdout
