"""`penstock backup` and `penstock restore`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from penstock.cli.arguments import DIRECTORY, EXISTING_DIRECTORY
from penstock.cli.connections import on_server
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_table, progress_bar, size_text
from penstock.cli.target import Target, target_options
from penstock.client.http.answers import Facts
from penstock.client.http.async_client import AsyncClient
from penstock.log.offline.backup import BackupLog, BackupReport, RestoreReport, create_backup, restore_backup

# A directory of terabytes is copied where it cannot be linked.
_LONGEST_S = 24 * 3600.0


@click.command()
@click.argument("places", metavar="[DIR] TARGET", nargs=-1, required=True)
@target_options
@output_option()
def backup(places: tuple[str, ...], target: Target, output: str) -> None:
    """Back up a data directory to TARGET, also while the server runs.

    With DIR (or --data) this command copies the files; without it the server of the context does, and TARGET is an
    absolute path on the server's machine. The backup contains everything acknowledged before the command started. If
    TARGET is on the same file system, complete segments are hard links and take no extra space: copy TARGET to another
    disk to protect against the loss of this one. TARGET must be empty or missing.

    \b
    Examples:
      penstock backup ./data ./backups/monday
      penstock backup ./data ./backups/monday -o json
      penstock backup /var/backups/penstock/monday --context production
    """
    *directories, copy = places
    if target.directory is not None:
        directories.append(str(target.directory))
    if len(directories) > 1:
        raise click.UsageError("give DIR and TARGET, or TARGET alone for the server to write")
    if not directories:
        _ask_for_backup(target, copy, output)
        return
    with progress_bar("copying") as advance:
        report = create_backup(_existing(directories[0]), Path(copy), advance)
    if output in DATA_FORMATS:
        print_data(_backup_json(report), output)
        return
    click.echo(
        f"{report.target}: {report.files} files, {size_text(report.bytes)}, {size_text(report.linked_bytes)} of them "
        f"linked; the directory was {report.state}"
    )
    _print_logs(report.logs)


def _existing(text: str) -> Path:
    if not (directory := Path(text)).is_dir():
        raise click.BadParameter(f"there is no directory {text}: name the data directory", param_hint="DIR")
    return directory


def _ask_for_backup(target: Target, copy: str, output: str) -> None:
    patient = replace(target, options=replace(target.options, timeout_s=_LONGEST_S))

    async def act(client: AsyncClient) -> Facts:
        return await client.backup(copy)

    report = on_server(patient, act)
    if output in DATA_FORMATS:
        print_data(report, output)
        return
    size, linked = report["bytes"], report["linked_bytes"]
    assert isinstance(size, int)
    assert isinstance(linked, int)
    sizes = f"{report['files']} files, {size_text(size)}, {size_text(linked)} of them linked"
    click.echo(f"{report['target']} on {target}: {sizes}")


@click.command()
@click.argument("source", metavar="BACKUP", type=EXISTING_DIRECTORY)
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@output_option()
def restore(source: Path, directory: Path, output: str) -> None:
    """Restore a data directory DIR from a backup and verify it.

    Every file is checked against the backup's manifest and every batch against its checksum. DIR must be empty or
    missing, and does not share files with the backup. Each log continues 2^32 offsets after its last record, so that no
    offset refers to a different message than before.

    \b
    Examples:
      penstock restore ./backups/monday ./restored
      penstock restore ./backups/monday ./restored -o json
    """
    with progress_bar("restoring") as advance:
        report = restore_backup(source, directory, advance)
    if output in DATA_FORMATS:
        print_data(_restore_json(report), output)
        return
    click.echo(
        f"{report.directory}: {report.files} files, {size_text(report.bytes)}; {report.records:,} records in "
        f"{report.batches:,} batches checked"
    )
    _print_logs(report.logs)


def _print_logs(logs: Sequence[BackupLog]) -> None:
    if logs:
        print_table(["log", "start", "end"], [(log.name, log.start, log.end) for log in logs], numbers=["start", "end"])


def _backup_json(report: BackupReport) -> dict[str, object]:
    return {
        "target": str(report.target),
        "state": report.state,
        "files": report.files,
        "bytes": report.bytes,
        "linked_bytes": report.linked_bytes,
        "logs": _logs_json(report.logs),
    }


def _restore_json(report: RestoreReport) -> dict[str, object]:
    return {
        "directory": str(report.directory),
        "files": report.files,
        "bytes": report.bytes,
        "records": report.records,
        "batches": report.batches,
        "logs": _logs_json(report.logs),
    }


def _logs_json(logs: Sequence[BackupLog]) -> list[dict[str, object]]:
    return [{"name": log.name, "start_offset": log.start, "end_offset": log.end} for log in logs]
