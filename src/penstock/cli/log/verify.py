"""`penstock log verify`: is every byte what it was?"""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.arguments import directory_argument, log_option
from penstock.cli.directory import DataDirectory
from penstock.cli.failures import FAILED
from penstock.cli.log.view import DirectoryView
from penstock.cli.output import DATA_FORMATS, Advance, output_option, print_data, progress_bar, size_text
from penstock.core.errors import LogDamaged, NoSuchLog
from penstock.core.types import LogName
from penstock.log.offline.verify import Finding, VerifyReport
from penstock.log.offline.verify import verify as verify_directory
from penstock.log.reading.cuts import DirectoryState


@click.command()
@directory_argument
@log_option("Only this log.  [default: every log, and the journal]")
@output_option()
def verify(directory: Path, name: LogName | None, output: str) -> int:
    """Check every batch of every log, and the journal; exit code 1 on damage.

    Checks checksums, structure, the order of offsets and times, record counts, indexes, and the journal after the
    checkpoint. While a server is running on the directory, only what readers can see is checked, and not the journal.
    An incomplete last frame of the journal after a crash is not damage: nothing in it was acknowledged.

    \b
    Examples:
      penstock log verify ./data
      penstock log verify ./data --log numbers -o json
    """
    found = DataDirectory.at(directory)
    report = check(directory, name)
    if output in DATA_FORMATS:
        print_data(_as_json(found, report), output)
    else:
        _print(found, report)
    return FAILED if report.findings else 0


def check(directory: Path, name: LogName | None = None) -> VerifyReport:
    """With progress on a terminal. A catalogue that cannot be read is a finding like any other."""
    try:
        total = _bytes_to_check(directory, name)
        with progress_bar("checking") as advance:
            return verify_directory(directory, _Counter(advance, total), name)
    except LogDamaged as error:
        finding = Finding(error.log, error.file, error.position, error.reason)
        return VerifyReport(DirectoryState(DataDirectory.at(directory).state.value), findings=[finding])


class _Counter:
    """From bytes since the last call, as verifying reports them, to bytes of the whole, as a bar shows them."""

    def __init__(self, advance: Advance, total: int) -> None:
        self._advance, self._total, self._done = advance, total, 0

    def __call__(self, log: str, size: int) -> None:
        self._done += size
        self._advance(log, self._done, self._total)


def _bytes_to_check(directory: Path, name: LogName | None) -> int:
    logs = DirectoryView(directory).logs
    if name is not None and all(log.name != name for log in logs):
        raise NoSuchLog(name)
    return sum(log.bytes for log in logs if name in (None, log.name))


def _print(directory: DataDirectory, report: VerifyReport) -> None:
    click.echo(f"{directory.path}: {directory}")
    click.echo(
        f"{report.records:,} records in {report.batches:,} batches checked, {size_text(report.bytes)} in "
        f"{report.segments} segments of {report.logs} logs; {report.frames:,} journal frames"
    )
    if report.torn_bytes:
        click.echo(
            f"{report.torn_bytes} bytes at the end of the journal are incomplete: never acknowledged, not damage"
        )
    if report.bad_indexes:
        click.echo(f"{len(report.bad_indexes)} indexes are incomplete or wrong, not damage: readers rebuild them")
    for finding in report.findings:
        click.echo(f"DAMAGED {_place(finding)}: {finding.reason}")
    if report.findings:
        click.echo(
            f"{len(report.findings)} problems found; `penstock log repair {directory.path}` shows what can be done"
        )
    else:
        click.echo("no damage")


def _place(finding: Finding) -> str:
    log = f"log {finding.log}: " if finding.log else ""
    return f"{log}{finding.file}, byte {finding.position}" if finding.file else log.removesuffix(": ")


def _as_json(directory: DataDirectory, report: VerifyReport) -> dict[str, object]:
    return {
        "directory": str(directory.path),
        "state": directory.state.value,
        "logs": report.logs,
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "bytes": report.bytes,
        "journal_frames": report.frames,
        "torn_bytes": report.torn_bytes,
        "bad_indexes": report.bad_indexes,
        "findings": report.findings,
    }
