"""`penstock log dump`: the batches of segment files and the frames of the journal, by their headers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from penstock.cli.arguments import directory_argument, log_option
from penstock.cli.log.dump_batches import BatchLine, DamageLine, batch_lines
from penstock.cli.log.dump_journal import EntryLine, FrameLine, frame_lines
from penstock.cli.log.view import DirectoryView
from penstock.cli.log.window import Window, window_options
from penstock.cli.output import DATA_FORMATS, line_of, output_option, time_text
from penstock.core.types import LogName

Line = TypeVar("Line", BatchLine | DamageLine, FrameLine)


@click.command()
@directory_argument
@log_option("Only this log.  [default: every log]")
@window_options
@click.option("-n", "--number", "limit", metavar="N", type=click.IntRange(min=0), help="At most N lines.")
@click.option("--journal", is_flag=True, help="Print frames of the journal instead of batches of segments.")
@output_option("text")
def dump(
    directory: Path,
    name: LogName | None,
    first: int | None,
    stop: int | None,
    since_ms: int | None,
    until_ms: int | None,
    limit: int | None,
    journal: bool,
    output: str,
) -> None:
    """Print a line for each batch, or for each frame of the journal, with its position and its header.

    A batch is printed if any of its records is in the requested range. Damage is shown where it is and does not end the
    command; use `penstock log verify` to check for damage. Works while a server is running on the directory, after it
    has stopped, and after a crash. A batch that is only in the journal is shown only with --journal.

    \b
    Examples:
      penstock log dump ./data --log numbers --from 500 --to 600
      penstock log dump ./data --log numbers -o json
      penstock log dump ./data --journal -n 20
    """
    window = Window(first, stop, since_ms, until_ms)
    view = DirectoryView(directory)
    log = None if name is None else view.log(name)
    if journal:
        _print(frame_lines(view.disk, None if log is None else log.number, window), frame_text, output, limit)
    else:
        logs = view.logs if log is None else [log]
        _print((line for one in logs for line in batch_lines(view, one, window)), batch_text, output, limit)


def _print(lines: Iterable[Line], as_text: Callable[[Line], str], output: str, limit: int | None) -> None:
    for line in islice(lines, limit):
        click.echo(line_of(line, output).rstrip() if output in DATA_FORMATS else as_text(line))


def batch_text(line: BatchLine | DamageLine) -> str:
    place = f"{line.file} at {line.position}"
    if isinstance(line, DamageLine):
        return f"{place}: DAMAGED, {line.problem}"
    crc = "crc ok" if line.crc_ok else "crc WRONG"
    problem = f": DAMAGED, {line.problem}" if line.problem else ""
    return (
        f"{place}: {line.bytes} bytes, offsets {line.base_offset}..{line.next_offset - 1}, {line.records} records, "
        f"epoch {line.epoch}, {'+'.join(line.columns)}, {line.compression}, {time_text(line.max_timestamp)}, "
        f"{crc}{problem}"
    )


def frame_text(line: FrameLine) -> str:
    entries = "; ".join(_entry_text(entry) for entry in line.entries) or "nothing"
    return (
        f"{line.file} at {line.position}: {line.bytes} bytes, generation {line.generation}, frame {line.sequence}, "
        f"durable below {line.durable}: {entries}"
    )


def _entry_text(entry: EntryLine) -> str:
    if entry.problem:
        return f"log {entry.log_number} DAMAGED, {entry.problem}"
    if entry.edit is not None:
        return f"log {entry.log_number} edit {msgspec.json.encode(entry.edit).decode()}"
    return (
        f"log {entry.log_number} offsets {entry.base_offset}..{(entry.next_offset or 0) - 1}, {entry.records} records"
    )
