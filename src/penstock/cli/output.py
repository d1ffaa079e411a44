"""How commands show things: tables for people, JSON or YAML for programs, progress on a terminal only. What `version`
does not need is imported where it is used."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])
Advance = Callable[[str, int, int], None]
"""(what is being done, how much of it is done, how much there is), called as often as one likes"""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


DATA_FORMATS = ("json", "yaml")
_FOR_PEOPLE = frozenset(("table", "text"))
_GAP = "  "
_BOLD = "\x1b[1m{}\x1b[0m"


class OutputFormat(click.Choice[str]):
    """What people read is called `table`, or `text` where values are printed as they are. Both names are good
    everywhere, so that a script need not know which command it runs."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(self.choices[0] if value in _FOR_PEOPLE else value, param, ctx)


def output_option(for_people: str = "table", *more: str, text: str = "Output format.") -> Callable[[Command], Command]:
    """-o, for every command that says something. Who prints for people prints JSON and YAML too."""
    formats = OutputFormat((for_people, *DATA_FORMATS, *more))
    return click.option("-o", "--output", type=formats, default=for_people, show_default=True, help=text)


def print_done(output: str, text: str, **facts: object) -> None:
    """What a command did, or with --dry-run would do: a line for people, the same as facts for programs."""
    print_told(output, text, facts)


def print_told(output: str, text: str, value: object) -> None:
    """A line for people, or what it is about for programs."""
    if output in DATA_FORMATS:
        print_data(value, output)
    else:
        click.echo(text)


def print_listed(
    output: str,
    facts: Mapping[str, object],
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    nothing: str,
    *,
    numbers: Iterable[str] = (),
) -> None:
    """A table for people, or `nothing` instead of an empty one; the facts for programs."""
    if output in DATA_FORMATS:
        print_data(facts, output)
    elif rows:
        print_table(columns, rows, numbers=numbers)
    else:
        click.echo(nothing)


def print_data(value: object, output: str) -> None:
    """For programs, with a newline."""
    if output == "yaml":
        click.echo(_yaml(value), nl=False)
        return
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def line_of(value: object, output: str) -> bytes:
    """One of many that come one after the other: JSON on a line, or a document of YAML."""
    if output == "yaml":
        return b"---\n" + _yaml(value).encode()
    import msgspec

    return msgspec.json.encode(value) + b"\n"


def _yaml(value: object) -> str:
    import msgspec
    import yaml

    text: str = yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True)
    return text


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Iterable[str] = ()) -> None:
    """`numbers` names the columns that are flushed right. A table is never cut to the width of a terminal that is not
    there."""
    right = frozenset(numbers)
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    is_terminal = sys.stdout.isatty()
    if not _is_plain(columns, texts) or (is_terminal and sum(widths) + 2 * len(widths) > _terminal_columns()):
        _print_folded(columns, texts, right)
        return
    is_bold = is_terminal and "NO_COLOR" not in os.environ
    for number, cells in enumerate([columns, *texts]):
        padded = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, cell, width in zip(columns, cells, widths, strict=True)
        ]
        line = _GAP.join(padded).rstrip()
        click.echo(_BOLD.format(line) if is_bold and not number else line)


def _is_plain(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> bool:
    """Every character is as wide as any other, and none begins a line."""
    return all(cell.isascii() and cell.isprintable() for cells in (columns, *texts) for cell in cells)


def _terminal_columns() -> int:
    return shutil.get_terminal_size().columns


def _print_folded(columns: Sequence[str], texts: Sequence[Sequence[str]], right: frozenset[str]) -> None:
    """Where cells are too wide for the terminal, or their width is not the count of their characters. What knows about
    that takes as long to import as all the rest of a command."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for cells in texts:
        table.add_row(*cells)
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
