from __future__ import annotations

import subprocess
import sys

from tests.support.faults import REPOSITORY


def test_a_hundredth_of_the_promised_sessions_and_retained_messages_fits_a_hundredth_of_the_memory() -> None:
    """And the overhead of a process. All of it: `python -m tests.soak_stores`."""
    command = [sys.executable, "-m", "tests.soak_stores", "--scale", "0.01"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("MiB of") == 7
    assert "a server with both" in done.stdout
