"""The Java that Spark runs on: found where it usually is, or an error that says how to get it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.core.errors import UnsupportedPlatform

LEAST_VERSION = 17
"""Spark 4 starts on nothing older."""

_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
_ANSWER_S = 30.0
_USUAL = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt")
_ADVICE = (
    f"install Java {LEAST_VERSION} or newer (Debian and Ubuntu: apt install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) or set JAVA_HOME to where it is"
)


def java_home(environment: Mapping[str, str] | None = None, usual: tuple[str, ...] = _USUAL) -> Path:
    """The JAVA_HOME to start Spark with: what the environment names, else what `java` of the path belongs to, else the
    newest in the usual places. UnsupportedPlatform if there is none, or if the one that was named is too old."""
    named = dict(os.environ if environment is None else environment)
    if home := named.get("JAVA_HOME"):
        return _checked_home(Path(home))
    versions = {home: version for home in _candidates(named, usual) if (version := java_version(home)) is not None}
    fitting = [home for home, version in versions.items() if version >= LEAST_VERSION]
    if fitting:
        return fitting[0]
    found = "; ".join(f"{home} has version {version}" for home, version in versions.items())
    raise UnsupportedPlatform(
        f"Spark needs Java, and none that fits was found{f' ({found})' if found else ''}: {_ADVICE}"
    )


def java_version(home: Path) -> int | None:
    """The major version of a Java; None where there is none that runs."""
    try:
        said = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=_ANSWER_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(said.stderr)
    return int(match[1]) if match and said.returncode == 0 else None


def _checked_home(home: Path) -> Path:
    version = java_version(home)
    if version is None:
        raise UnsupportedPlatform(f"JAVA_HOME is {home}, and no bin/java runs there: {_ADVICE}")
    if version < LEAST_VERSION:
        raise UnsupportedPlatform(f"JAVA_HOME is {home}, Java {version}, which is too old for Spark: {_ADVICE}")
    return home


def _candidates(environment: Mapping[str, str], usual: tuple[str, ...]) -> Iterator[Path]:
    if program := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(program).resolve().parents[1]
    for place in map(Path, usual):
        yield from sorted(_homes_in(place), reverse=True)


def _homes_in(place: Path) -> Iterator[Path]:
    for program in (*place.glob("*/bin/java"), *place.glob("*/Contents/Home/bin/java")):
        yield program.parents[1]
