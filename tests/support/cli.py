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
_ROOT = Path(__file__).parents[2]
# A tree that was never installed has the package only through pytest's own path.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT / "src"), os.environ.get("PYTHONPATH")])),
    "NO_COLOR": "1",
}


def penstock(*arguments: str | Path, given: bytes = b"", expected: int = 0) -> subprocess.CompletedProcess[bytes]:
    """Run to its end; AssertionError, with what it said, unless it ends with the expected code."""
    ran = subprocess.run(
        [*_QUIET, *map(str, arguments)], input=given, capture_output=True, timeout=120, env=ENVIRONMENT
    )
    return _ended(ran, expected)


def example(name: str, *arguments: str | Path, expected: int = 0) -> subprocess.CompletedProcess[bytes]:
    """A program of `examples`, likewise."""
    ran = subprocess.run(
        _example(name, arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        env=ENVIRONMENT,
        cwd=_ROOT,
    )
    return _ended(ran, expected)


def example_started(name: str, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """Under way; the caller ends it."""
    return subprocess.Popen(
        _example(name, arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        cwd=_ROOT,
    )


def _example(name: str, arguments: tuple[str | Path, ...]) -> list[str]:
    return [sys.executable, "-m", f"examples.{name}", *map(str, arguments)]


def _ended(ran: subprocess.CompletedProcess[bytes], expected: int) -> subprocess.CompletedProcess[bytes]:
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
