"""A running pipeline shown: a table on a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.output import age_text

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from penstock.spark.pipelines.failures import FailureKind
    from penstock.spark.pipelines.progress import Progress
    from penstock.spark.pipelines.runner import Board

_COLUMNS = ("sink", "state", "batch", "rows", "rows/s", "batch time", "lag")


class TerminalBoard:
    """One line for each sink, drawn anew when something happens."""

    def __init__(self, screen: Live) -> None:
        self._screen = screen
        self._states: dict[str, str] = {}
        self._progress: dict[str, Progress] = {}

    def started(self, sink: str) -> None:
        self._tell(sink, "running")

    def progressed(self, progress: Progress) -> None:
        self._progress[progress.sink] = progress
        self._draw()

    def failed(self, sink: str, kind: FailureKind, reason: str, pause_s: float | None) -> None:
        then = "" if pause_s is None else f", again in {pause_s:g} s"
        self._tell(sink, f"failed ({kind}){then}: {reason}")

    def ended(self, sink: str) -> None:
        self._tell(sink, "ended")

    def _tell(self, sink: str, state: str) -> None:
        self._states[sink] = state
        self._draw()

    def _draw(self) -> None:
        self._screen.update(self._table(), refresh=True)

    def _table(self) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in _COLUMNS:
            table.add_column(column, justify="left" if column in ("sink", "state") else "right")
        for sink, state in self._states.items():
            table.add_row(sink, state, *progress_cells(self._progress.get(sink)))
        return table


def progress_cells(progress: Progress | None) -> tuple[str, ...]:
    """Behind the name and state of a sink."""
    if progress is None:
        return ("-",) * (len(_COLUMNS) - 2)
    lags = f"{progress.lag:,}" if progress.lags else "-"
    return (
        str(progress.batch),
        f"{progress.rows:,}",
        f"{progress.rows_per_s:,.0f}",
        age_text(progress.batch_ms / 1000),
        lags,
    )


@contextmanager
def board_of(pipeline: str) -> Iterator[Board]:
    """For where standard error goes."""
    if not sys.stderr.isatty():
        # Progress is what this command has to say, whatever level the rest of the lines has.
        from penstock.spark.pipelines.board import LOG, LogBoard

        LOG.setLevel(logging.INFO)
        yield LogBoard(pipeline)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False) as screen:
        yield TerminalBoard(screen)
