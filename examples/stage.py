"""How the tour and the scene are started and speak: colours and bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import click

from penstock.cli.failures import exit_code_of
from penstock.core.logs import configure_logs
from penstock.core.types import Offset

if TYPE_CHECKING:
    from rich.table import Table

_LINES_PER_SCENE = 4


def run(command: click.Command) -> NoReturn:
    """Ends the program as the `penstock` command would: a known error is a line on standard error."""
    configure_logs("warning", "text")
    sys.exit(exit_code_of(lambda: int(command.main(standalone_mode=False) or 0)))


class Stage:
    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._scenes = 0

    def scene(self, title: str) -> None:
        self._scenes += 1
        click.echo()
        click.echo(click.style(f"{self._scenes}. {title[0].upper()}{title[1:]}", bold=True))

    def say(self, text: str) -> None:
        click.echo(f"   {text}")

    def good(self, text: str) -> None:
        click.echo("   " + click.style(text, fg="green"))

    def bad(self, text: str) -> None:
        click.echo("   " + click.style(text, fg="red", bold=True))

    @contextmanager
    def counting(self, what: str, total: int, first: int = 0) -> Iterator[Callable[[Offset], None]]:
        """Yields what to call with each durable offset; the first message has offset `first`."""
        if self._is_terminal:
            with _bar(what, total, first) as report:
                yield report
        else:
            yield self._lines(what, total, first)

    @contextmanager
    def watching(self, look: Callable[[], dict[str, str]], line_every_s: float = 0.5) -> Iterator[None]:
        """What `look` sees, named, several times a second on a terminal, now and then elsewhere."""
        over = threading.Event()
        if self._is_terminal:
            watcher = threading.Thread(target=self._live_table, args=(look, over), name="tour-table")
        else:
            watcher = threading.Thread(target=self._table_lines, args=(look, over, line_every_s), name="tour-table")
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def _live_table(self, look: Callable[[], dict[str, str]], over: threading.Event) -> None:
        from rich.live import Live

        with Live(_table(look()), refresh_per_second=8) as live:
            while not over.wait(0.15):
                live.update(_table(look()))
            live.update(_table(look()))

    def _table_lines(self, look: Callable[[], dict[str, str]], over: threading.Event, every_s: float) -> None:
        while not over.wait(every_s):
            self.say("  ".join(f"{name} {value}" for name, value in look().items()))

    def _lines(self, what: str, total: int, first: int) -> Callable[[Offset], None]:
        step = max(1, total // _LINES_PER_SCENE)
        begun, next_at = time.monotonic(), step

        def report(offset: Offset) -> None:
            nonlocal next_at
            done = offset - first + 1
            if done >= next_at:
                next_at += step
                rate = done / max(time.monotonic() - begun, 1e-9)
                self.say(f"{what}: {done:,} of {total:,}, {rate:,.0f}/s, durable offset {offset:,}")

        return report


def _table(row: dict[str, str]) -> Table:
    from rich.table import Table

    table = Table(*row)
    table.add_row(*row.values())
    return table


@contextmanager
def _bar(what: str, total: int, first: int) -> Iterator[Callable[[Offset], None]]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    rate = TextColumn("{task.fields[rate]:>12}/s  durable offset {task.fields[offset]}")
    columns = TextColumn("   {task.description}"), BarColumn(), TaskProgressColumn(), rate
    with Progress(*columns) as progress:
        task = progress.add_task(what, total=total, rate="0", offset="none")
        begun = time.monotonic()

        def report(offset: Offset) -> None:
            done = offset - first + 1
            shown = f"{done / max(time.monotonic() - begun, 1e-9):,.0f}"
            progress.update(task, completed=done, rate=shown, offset=f"{offset:,}")

        yield report
