"""Which records a reading command is asked for: by offset, by time, by number."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import click

from penstock.cli.arguments import time_option
from penstock.log.batch import Batch

Command = TypeVar("Command", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Window:
    """Records from offset `first` up to, not including, `stop`, whose time is in since_ms..until_ms, not including
    until_ms. None means no bound."""

    first: int | None = None
    stop: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def rows(self, batch: Batch) -> range:
        """The rows of the batch inside the window. Offsets and times never decrease, so they are neighbours."""
        begin, end = 0, len(batch)
        if self.first is not None or self.stop is not None:
            offsets = batch.offsets()
            begin = 0 if self.first is None else bisect_left(offsets, self.first)
            end = end if self.stop is None else bisect_left(offsets, self.stop)
        if self.since_ms is not None or self.until_ms is not None:
            timestamps = batch.timestamps()
            begin = begin if self.since_ms is None else max(begin, bisect_left(timestamps, self.since_ms))
            end = end if self.until_ms is None else min(end, bisect_left(timestamps, self.until_ms))
        return range(begin, max(begin, end))

    def ends_before(self, first_offset: int, first_ms: int) -> bool:
        """Whether a batch that begins there, and all behind it, lie outside."""
        return (self.stop is not None and first_offset >= self.stop) or (
            self.until_ms is not None and first_ms >= self.until_ms
        )


def window_options(command: Command) -> Command:
    """--from, --to, --since, --until, as parameters first, stop, since_ms, until_ms."""
    for option in (
        time_option("--until", "until_ms", "Only messages before this time."),
        time_option(
            "--since", "since_ms", "From this time on: ISO 8601, ms since 1970, or a duration back from now (2h)."
        ),
        click.option("--to", "stop", metavar="OFFSET", type=click.IntRange(min=0), help="End before this offset."),
        click.option("--from", "first", metavar="OFFSET", type=click.IntRange(min=0), help="Start at this offset."),
    ):
        command = option(command)
    return command
