"""Somebody who types commands, in an environment of their own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.cli import COMMAND, ENVIRONMENT

NOTHING: Mapping[str, str] = {}


class Operator:
    """Each command is a process; contexts are in `place`."""

    def __init__(self, place: Path, url: str) -> None:
        self.url = url
        self.environment = {**ENVIRONMENT, "XDG_CONFIG_HOME": str(place / "config")}

    def run(
        self, *arguments: str, given: bytes = b"", expected: int = 0, variables: Mapping[str, str] = NOTHING
    ) -> subprocess.CompletedProcess[bytes]:
        ran = subprocess.run(
            [*COMMAND, "--log-level", "error", *arguments],
            input=given,
            capture_output=True,
            timeout=120,
            env={**self.environment, **variables},
        )
        assert ran.returncode == expected, (ran.returncode, ran.stdout[-2000:], ran.stderr[-4000:])
        return ran

    def says(self, *arguments: str, given: bytes = b"", variables: Mapping[str, str] = NOTHING) -> str:
        return self.run(*arguments, given=given, variables=variables).stdout.decode()

    def fails(self, *arguments: str, expected: int = 1, variables: Mapping[str, str] = NOTHING) -> str:
        return self.run(*arguments, expected=expected, variables=variables).stderr.decode()

    def shows(self, *arguments: str) -> Any:
        """JSON can be anything; what it must be, the test says."""
        return json.loads(self.says(*arguments, "-o", "json"))
