"""schemathesis against a server: everything that its description allows, and much that it does not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support import http_fuzz_hooks
from tests.support.cli import ENVIRONMENT

_REPOSITORY = Path(__file__).parents[2]
_SETTINGS = Path(__file__).with_name("http_fuzz.toml")
_GRACE_S = 120.0
_WIDEST = 500
"""characters of a line that a failure shows: requests may be long"""
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
ENDLESS = {
    "/api/v1/queues/{queue}/events": "an answer that never ends: schemathesis waits for all of it",
    "/api/v1/topics/events": "an answer that never ends: schemathesis waits for all of it",
}
"""operations that are left out, and why; test_http_fuzz_events.py asks them the same, and reads a part"""

# In development mode every login will do, so none can be a wrong one.
ANY_LOGIN = ("--header", "Authorization:Bearer any", "--header", "X-API-Key:any")


def fuzz_accepted(url: str, place: Path, seconds: int, seed: int, options: Sequence[str] = ()) -> str:
    """As fuzz(), but only what the description allows, which must not be refused for its shape."""
    return _run(url, place, seconds, seed, ["positive_data_acceptance"], ["--mode", "positive", *options], is_tame=True)


def fuzz(url: str, place: Path, seconds: int, seed: int, options: Sequence[str] = ()) -> str:
    """How many cases it was, in its words. AssertionError, with what it found, if the server or its description is
    wrong. `place` is a directory that backups may fill."""
    return _run(url, place, seconds, seed, _CHECKS, options)


def _run(
    url: str,
    place: Path,
    seconds: int,
    seed: int,
    checks: Sequence[str],
    options: Sequence[str],
    *,
    is_tame: bool = False,
) -> str:
    command = [str(Path(sys.executable).with_name("st")), "--config-file", str(_SETTINGS), "run", f"{url}/openapi.json"]
    command += ["--max-time", str(seconds)]
    command += ["--checks", ",".join(checks), "--phases", "coverage,fuzzing", "--continue-on-failure", "--no-color"]
    command += ["--seed", str(seed), "--request-timeout", "30", "--warnings", "off", "--suppress-health-check", "all"]
    path = os.pathsep.join([str(_REPOSITORY), ENVIRONMENT["PYTHONPATH"]])
    hooks = {"SCHEMATHESIS_HOOKS": http_fuzz_hooks.__name__, http_fuzz_hooks.PLACE: str(place), "PYTHONPATH": path}
    if is_tame:
        hooks[http_fuzz_hooks.TAME] = "1"
    ran = subprocess.run(
        [*command, *(word for path in ENDLESS for word in ("--exclude-path", path)), *options],
        env={**ENVIRONMENT, **hooks},
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds + _GRACE_S,
    )
    assert ran.returncode == 0, "\n".join(line[:_WIDEST] for line in ran.stdout.splitlines())[-20_000:]
    counted = re.search(r"(\d+) generated", ran.stdout)
    assert counted is not None, ran.stdout[-5000:]
    return f"{counted[1]} requests, seed {seed}"
