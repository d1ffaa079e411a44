"""Installs a group of pyproject.toml into the environment that runs this, with the package itself, and says how far it
is in lines for people: `python scripts/install.py run`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
WHAT = {
    "run": "what Penstock runs with",
    "spark": "Spark, for the pipeline: 450 MB where it is not in pip's cache",
    "dev": "what tests, benchmarks and checks need, Spark too: some minutes where it is not in pip's cache",
}
"""group -> what a person is told"""

_COLLECTED = re.compile(r"\s*Collecting ([\w.-]+)")
_FETCHED = re.compile(r"\s*Downloading \S*?([\w.+-]+\.(?:whl|tar\.gz))(?:\.metadata)? \((\S+ [kMG]B)\)")
_LAST_LINES = 30


def main(group: str) -> int:
    begun = time.monotonic()
    print(f"installing {WHAT[group]}", flush=True)
    code = _pip("install", "--group", group)
    if code == 0 and group == "run":
        # The kernels are compiled in place, once, by the next step of make.
        code = _pip("install", "--no-build-isolation", "--editable", ".", PENSTOCK_PURE="1")
    if code == 0:
        print(f"   done in {time.monotonic() - begun:.0f} s", flush=True)
    return code


def _pip(*arguments: str, **variables: str) -> int:
    """Its exit code; what it said last is shown if it failed."""
    command = [sys.executable, "-m", "pip", *arguments, "--disable-pip-version-check", "--progress-bar", "off"]
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        last = _follow(process.stdout)
    if process.returncode:
        print("\n".join(last), file=sys.stderr)
    return process.returncode


def _follow(lines: Iterable[str]) -> deque[str]:
    """Of all that pip says, what a person waits for."""
    last, found = deque[str](maxlen=_LAST_LINES), 0
    for line in lines:
        last.append(line.rstrip())
        if fetched := _FETCHED.match(line):
            print(f"   downloading {fetched[1]}, {fetched[2]}", flush=True)
        elif _COLLECTED.match(line):
            found += 1
        elif line.startswith("Installing collected packages:"):
            print(f"   {found} package{'s' * (found != 1)} found, putting them in place", flush=True)
    return last


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
