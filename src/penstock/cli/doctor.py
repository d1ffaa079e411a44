"""`penstock doctor`: what on this machine would make Penstock slow, unsafe or stop."""

from __future__ import annotations

import enum
import platform
import sys
from dataclasses import dataclass, field
from pathlib import Path

import click

from penstock.cli.arguments import DIRECTORY
from penstock.cli.failures import FAILED
from penstock.cli.output import output_option, print_json, print_table
from penstock.version import VERSION


class Verdict(enum.Enum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One look at one thing: `facts` for programs, `text` says what was found and, if need be, what to do."""

    name: str
    verdict: Verdict
    text: str
    facts: dict[str, object] = field(default_factory=dict)


@click.command()
@click.argument("directory", metavar="[DIR]", type=DIRECTORY, default=Path())
@output_option("table", "json")
def doctor(directory: Path, output: str) -> int:
    """Look at kernels, disk, limits and clock, and say what to do about them.

    DIR is the data directory, or where it is going to be; without it, the current directory. Writes one unnamed file of
    1 MiB there for a second, to measure syncs. Exit code 1 if Penstock cannot run well here.

    \b
    Examples:
      penstock doctor
      penstock doctor /var/lib/penstock -o json
    """
    findings = examine(directory)
    if output == "json":
        print_json(_as_json(directory, findings))
    else:
        print_table(["", "what", "found"], [(found.verdict.value, found.name, found.text) for found in findings])
    return FAILED if any(found.verdict is Verdict.PROBLEM for found in findings) else 0


def examine(directory: Path) -> list[Finding]:
    """Every check, in the order in which a person reads them."""
    from penstock.cli import doctor_disk, doctor_process

    place = _nearest(directory)
    return [
        doctor_process.kernels(),
        doctor_disk.data_directory(directory),
        doctor_disk.file_system(place),
        doctor_disk.sync_speed(place),
        doctor_disk.free_space(place),
        doctor_process.open_files(),
        doctor_process.clock(directory),
    ]


def _nearest(directory: Path) -> Path:
    """The directory itself, or the first above it that exists."""
    absolute = directory.absolute()
    return next(place for place in (absolute, *absolute.parents) if place.is_dir())


def _as_json(directory: Path, findings: list[Finding]) -> dict[str, object]:
    return {
        "version": VERSION,
        "python": platform.python_version(),
        "platform": sys.platform,
        "directory": str(directory),
        "checks": {
            found.name: {"verdict": found.verdict.value, "text": found.text, **found.facts} for found in findings
        },
    }
