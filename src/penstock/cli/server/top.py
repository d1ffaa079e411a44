"""`penstock top`: a server at work, live."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from penstock.cli.connections import on_server
from penstock.cli.output import DATA_FORMATS, line_of, output_option, print_table
from penstock.cli.server.top_frame import QUEUE_COLUMNS, QUEUE_NUMBERS, Frame, Look, look
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient

if TYPE_CHECKING:
    from rich.console import RenderableType

_FEW_QUEUES = 20
_HEAD_LINES = 8


@click.command()
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Refresh interval.",
)
@click.option("--once", is_flag=True, help="Print once and exit.")
@target_options
@output_option()
def top(target: Target, interval: float, once: bool, output: str) -> None:
    """Watch a server: queues with depth, rates, lag in messages and time, and messages in flight; clients; disk syncs.

    The busiest queues come first. Press `q` or Ctrl-C to quit. Without a terminal, frames are printed one below the
    other. With -o json each frame is an object on one line, with the rates of the interval.

    \b
    Examples:
      penstock top
      penstock top --once
      penstock top --once -o json
      penstock top --context production --interval 5
    """

    async def act(client: AsyncClient) -> None:
        if once:
            _print(await _next(client, await look(client, _FEW_QUEUES), interval, _FEW_QUEUES), output)
        elif _can_draw() and output not in DATA_FORMATS:
            await _draw(client, interval)
        else:
            await _print_all(client, interval, output)

    on_server(target, act)


def _can_draw() -> bool:
    return sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"


async def _next(client: AsyncClient, before: Look, interval_s: float, most_queues: int) -> Frame:
    await asyncio.sleep(interval_s)
    return Frame(before, await look(client, most_queues))


async def _print_all(client: AsyncClient, interval_s: float, output: str) -> None:
    before = await look(client, _FEW_QUEUES)
    while True:
        frame = await _next(client, before, interval_s, _FEW_QUEUES)
        _print(frame, output)
        click.echo(nl=output not in DATA_FORMATS)
        sys.stdout.flush()
        before = frame.after


def _print(frame: Frame, output: str) -> None:
    if output in DATA_FORMATS:
        click.echo(line_of(frame.facts(), output), nl=False)
        return
    for line in frame.head():
        click.echo(line)
    if rows := frame.rows():
        print_table(QUEUE_COLUMNS, rows, numbers=QUEUE_NUMBERS)
    if frame.hidden:
        click.echo(f"and {frame.hidden:,} more queues")


async def _draw(client: AsyncClient, interval_s: float) -> None:
    from rich.live import Live
    from rich.text import Text

    quitting = asyncio.Event()
    with _keys(quitting), Live(Text("looking…"), screen=True, auto_refresh=False) as screen:
        most = max(1, screen.console.height - _HEAD_LINES)
        before = await look(client, most)
        while not quitting.is_set():
            await _wait(quitting, interval_s)
            most = max(1, screen.console.height - _HEAD_LINES)
            frame = Frame(before, await look(client, most))
            screen.update(_drawn(frame), refresh=True)
            before = frame.after


async def _wait(quitting: asyncio.Event, interval_s: float) -> None:
    waiting = asyncio.ensure_future(quitting.wait())
    await asyncio.wait([waiting], timeout=interval_s)
    waiting.cancel()


def _drawn(frame: Frame) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for column in QUEUE_COLUMNS:
        is_number = column in QUEUE_NUMBERS
        table.add_column(column, justify="right" if is_number else "left", no_wrap=True, overflow="ellipsis")
    for row in frame.rows():
        table.add_row(*(str(cell) for cell in row))
    first, *rest = frame.head()
    more = [Text(f"and {frame.hidden:,} more queues", style="dim")] if frame.hidden else []
    return Group(Text(first, style="bold"), *map(Text, rest), Text(), table, *more, Text("q quits", style="dim"))


@contextmanager
def _keys(quitting: asyncio.Event) -> Iterator[None]:
    """The terminal gives keys at once and does not show them; afterwards it is as it was."""
    import termios
    import tty

    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        if os.read(descriptor, 64)[:1] in (b"q", b"Q", b""):
            quitting.set()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
