"""How the tour speaks: colours and bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from penstock.core.types import Offset

_LINES_PER_SCENE = 4


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
