"""Running the command line as a user does: another process, its output and exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "penstock.cli.main"]
# Only what a command itself says: a build without compiled kernels warns whenever a directory is opened.
_QUIET = [*COMMAND, "--log-level", "error"]
_SOURCE = str(Path(__file__).parents[2] / "src")
# A tree that was never installed has the package only through pytest's own path.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, [_SOURCE, os.environ.get("PYTHONPATH")])),
    "NO_COLOR": "1",
}


def penstock(*arguments: str | Path, given: bytes = b"", expected: int = 0) -> subprocess.CompletedProcess[bytes]:
    """Run to its end; AssertionError, with what it said, unless it ends with the expected code."""
    ran = subprocess.run(
        [*_QUIET, *map(str, arguments)], input=given, capture_output=True, timeout=120, env=ENVIRONMENT
    )
    assert ran.returncode == expected, (ran.returncode, ran.stdout[-2000:], ran.stderr[-4000:])
    return ran


def penstock_json(*arguments: str | Path, expected: int = 0) -> dict[str, object]:
    found: dict[str, object] = json.loads(penstock(*arguments, "-o", "json", expected=expected).stdout)
    return found


def started(*arguments: str | Path) -> subprocess.Popen[bytes]:
    """Under way, with pipes; the caller ends it."""
    return subprocess.Popen(
        [*_QUIET, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )


def offsets(output: bytes) -> list[int]:
    """What `log append` printed."""
    return [int(line) for line in output.split()]


def lines(count: int, first: int = 0) -> bytes:
    return b"".join(b"message %d\n" % number for number in range(first, first + count))
