"""`penstock log stat`: what a data directory holds."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.arguments import directory_argument
from penstock.cli.log.view import DirectoryView, LogSummary
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_table, size_text, time_text

_COLUMNS = ["log", "start", "end", "records", "bytes", "segments", "durability", "compression", "newest record"]
_NUMBERS = ["start", "end", "records", "bytes", "segments"]


@click.command()
@directory_argument
@output_option()
def stat(directory: Path, output: str) -> None:
    """Show the logs of a data directory: offsets, records, sizes, settings.

    `start` is the oldest stored offset, `end` the offset that the next message will get. Works while a server is
    running on the directory, after it has stopped, and after a crash; the output says which it is. Nothing is changed.

    \b
    Examples:
      penstock log stat ./data
      penstock log stat ./data -o json
    """
    view = DirectoryView(directory)
    if output in DATA_FORMATS:
        print_data(as_json(view), output)
    else:
        _print(view)


def as_json(view: DirectoryView) -> dict[str, object]:
    return {
        "directory": str(view.directory.path),
        "format": view.directory.format,
        "state": view.directory.state.value,
        "logs": [_log_json(log) for log in view.logs],
        "journal": view.journal(),
    }


def _log_json(log: LogSummary) -> dict[str, object]:
    return {
        "name": log.name,
        "number": log.number,
        "start_offset": log.start,
        "end_offset": log.end,
        "records": log.records,
        "bytes": log.bytes,
        "segments": log.segments,
        "durability": log.settings.durability.name.lower(),
        "compression": log.settings.compression.name.lower(),
        "epoch": log.epoch,
        "newest_timestamp": log.newest_ms or None,
        "problem": log.problem or None,
    }


def _print(view: DirectoryView) -> None:
    click.echo(f"{view.directory.path}: format {view.directory.format}, {view.directory}")
    if not view.logs:
        click.echo("no logs yet")
        return
    print_table(_COLUMNS, [_row(log) for log in view.logs], numbers=_NUMBERS)
    for log in view.logs:
        if log.problem:
            click.echo(f"{log.name}: {log.problem}")


def _row(log: LogSummary) -> list[object]:
    settings = log.settings
    newest = time_text(log.newest_ms) if log.newest_ms else "-"
    sizes = f"{log.records:,}", size_text(log.bytes), log.segments
    return [
        log.name,
        log.start,
        log.end,
        *sizes,
        settings.durability.name.lower(),
        settings.compression.name.lower(),
        newest,
    ]
