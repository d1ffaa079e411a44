"""`penstock doctor`: what on this machine, or in a configuration, would make Penstock slow, unsafe or stop."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.arguments import DIRECTORY
from penstock.cli.doctor.finding import Finding, Verdict
from penstock.cli.failures import FAILED
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_table
from penstock.cli.server.serve import BAD_CONFIGURATION
from penstock.core.errors import InvalidSetting
from penstock.version import VERSION

if TYPE_CHECKING:
    from penstock.server.config import Config

_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("directory", metavar="[DIR]", type=DIRECTORY, required=False)
@click.option("--data", metavar="DIR", type=DIRECTORY, help="Data directory; the same as the argument.")
@click.option("-c", "--config", "file", metavar="FILE", type=_FILE, help="Configuration file (YAML).")
@click.option(
    "--set", "changes", metavar="KEY=VALUE", multiple=True, help="Override a setting, as for `penstock serve`."
)
@output_option()
def doctor(directory: Path | None, data: Path | None, file: Path | None, changes: tuple[str, ...], output: str) -> int:
    """Check kernels, disk, limits, clock, ports, certificates and configuration, and suggest what to change.

    DIR is the data directory, or where it will be; by default that of the configuration file, or the current directory.
    To measure syncs, a temporary file of 1 MiB is written there for a second. The configuration is the one a server
    would use: file, environment, --set. Exit codes: 1 if Penstock cannot run well here, 2 for a bad configuration.

    \b
    Examples:
      penstock doctor
      penstock doctor --data /var/lib/penstock -o json
      penstock doctor -c penstock.yaml
    """
    from penstock.server.config import load

    if directory is not None and data is not None:
        raise click.UsageError("DIR and --data both name the data directory: leave one out")
    try:
        config = load(file, os.environ, changes)
    except InvalidSetting as error:
        click.echo(f"penstock: error: {error}", err=True)
        return BAD_CONFIGURATION
    place = directory or data or (Path(config.data_dir) if file else Path())
    findings = examine(place, config)
    if output in DATA_FORMATS:
        print_data(_as_json(place, findings), output)
    else:
        print_table(["", "what", "found"], [(found.verdict.value, found.name, found.text) for found in findings])
    return FAILED if any(found.verdict is Verdict.PROBLEM for found in findings) else 0


def examine(directory: Path, config: Config) -> list[Finding]:
    """Every check, in the order in which a person reads them."""
    from penstock.cli.doctor import disk as doctor_disk
    from penstock.cli.doctor import network as doctor_network
    from penstock.cli.doctor import process as doctor_process
    from penstock.cli.doctor import server as doctor_server

    place = _nearest(directory)
    return [
        doctor_process.kernels(),
        doctor_disk.data_directory(directory),
        doctor_disk.file_system(place),
        doctor_disk.sync_speed(place),
        doctor_disk.free_space(place, config.storage.options()),
        doctor_process.open_files(),
        doctor_process.clock(directory),
        doctor_server.event_loop(config),
        doctor_server.packages(config),
        doctor_server.rate_limits(config),
        doctor_server.limits(config),
        doctor_network.ports(config, directory),
        doctor_network.certificates(config),
        doctor_network.server(),
        doctor_process.java(),
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
