"""`penstock log cat`: the messages of a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from penstock.cli.arguments import directory_argument, log_option
from penstock.cli.log.record_text import RENDERERS, Render
from penstock.cli.log.view import DirectoryView, LogSummary
from penstock.cli.log.window import Window, window_options
from penstock.cli.output import output_option
from penstock.core.types import LogName
from penstock.log.batch import Batch

_FOLLOW_S = 0.2


@click.command()
@directory_argument
@log_option("The log to read.", required=True)
@window_options
@click.option("-n", "--number", "limit", metavar="N", type=click.IntRange(min=0), help="At most N messages.")
@click.option("-f", "--follow", is_flag=True, help="Keep waiting for new messages until interrupted.")
@output_option("text")
def cat(
    directory: Path,
    name: LogName,
    first: int | None,
    stop: int | None,
    since_ms: int | None,
    until_ms: int | None,
    limit: int | None,
    follow: bool,
    output: str,
) -> None:
    """Print the messages of a log, oldest first.

    Text output is one value per line. JSON output is one object per line with offset, timestamp, key and value; a field
    that is not UTF-8 is base64-encoded and named like value_base64.

    Works while a server is running on the directory, after it has stopped, and after a crash; nothing is changed. While
    a server is running, committed messages appear after a short delay, when they have reached the segment files.

    \b
    Examples:
      penstock log cat ./data --log numbers --from 990 -o json
      penstock log cat ./data --log numbers --since 2h --until 2026-11-15T09:00:00Z
      penstock log cat ./data --log numbers -n 10
    """
    render = RENDERERS[output]
    printer = Printer(Window(first, stop, since_ms, until_ms), render, _write, limit)
    offset = _print_once(directory, name, printer, first)
    while follow and not printer.is_done:
        time.sleep(_FOLLOW_S)
        offset = _print_once(directory, name, printer, offset)


@dataclass(slots=True)
class Printer:
    """Takes batches in order, gives rendered records to `write`, and knows when no more can come."""

    window: Window
    render: Render
    write: Callable[[bytes], None]
    limit: int | None = None
    printed: int = 0
    is_done: bool = False

    def take(self, batch: Batch) -> None:
        header = batch.header
        self.is_done = self.window.ends_before(header.base_offset, header.base_timestamp)
        rows = self.window.rows(batch)
        if self.limit is not None:
            rows = rows[: self.limit - self.printed]
        if rows:
            self.write(self.render(batch, rows))
            self.printed += len(rows)
        self.is_done |= self.limit is not None and self.printed >= self.limit


def _print_once(directory: Path, name: LogName, printer: Printer, asked: int | None) -> int:
    """Print what is there from the asked offset on; where the next look begins."""
    view = DirectoryView(directory)
    log = view.log(name)
    offset = _first_offset(view, log, printer.window, asked)
    for data in view.batches(log, offset):
        batch = Batch.parse(data, verify=False)
        printer.take(batch)
        offset = max(offset, batch.next_offset)
        if printer.is_done:
            break
    sys.stdout.flush()
    return offset


def _first_offset(view: DirectoryView, log: LogSummary, window: Window, asked: int | None) -> int:
    """Says so on standard error where the asked one is not there."""
    if asked is not None and asked < log.start:
        click.echo(f"penstock: offsets below {log.start} of log {log.name!r} are gone; starting there", err=True)
    offset = max(log.start, asked or 0)
    if window.since_ms is not None:
        offset = max(offset, view.offset_at_time(log, window.since_ms))
    return offset


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
