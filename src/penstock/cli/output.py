"""How commands show things: tables for people, JSON for programs, progress on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

import click
import msgspec

Command = TypeVar("Command", bound=Callable[..., object])
Advance = Callable[[str, int, int], None]
"""(what is being done, how much of it is done, how much there is), called as often as one likes"""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def output_option(*formats: str) -> Callable[[Command], Command]:
    """-o; the first format is the default."""
    kinds = click.Choice(formats)
    return click.option("-o", "--output", type=kinds, default=formats[0], show_default=True, help="How to print.")


def print_json(value: object) -> None:
    """Indented, with a newline."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Iterable[str] = ()) -> None:
    """`numbers` names the columns that are flushed right. A table is never cut to the width of a terminal that is not
    there."""
    from rich.console import Console
    from rich.table import Table

    right = frozenset(numbers)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)
    console.print(table)


def size_text(size: float) -> str:
    """`64.0 MiB`; bytes without a fraction."""
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def time_text(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age_text(seconds: float) -> str:
    """`12.3s`, `4m 5s`, `3h 20m`, `2d 5h`."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if hours < 24 else f"{hours // 24}d {hours % 24}h"


@contextmanager
def progress_bar(unit: str) -> Iterator[Advance]:
    """A bar on standard error while it is a terminal; otherwise nothing is shown."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(unit, total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)
