"""`python -m examples.tour`: what a log and a queue promise, shown on this machine."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from examples.stage import Stage, run
from examples.tour.load import MESSAGE_BYTES, append_and_kill, append_messages
from examples.tour.queue import QueueTour
from examples.tour.table import INSTALL, summarise
from penstock.cli.arguments import DIRECTORY
from penstock.cli.failures import FAILED
from penstock.cli.log.verify import check
from penstock.cli.log.view import DirectoryView
from penstock.cli.output import size_text
from penstock.core.errors import InvalidArgument
from penstock.core.types import Offset
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.shard import Shard
from penstock.log.threads import SWITCH_INTERVAL_S

LOG = log_name("tour", "orders")
# The tour cleans up behind itself, so it need not leave the room that a server keeps free.
OPTIONS = ShardOptions(disk_reserve_bytes=0)


@click.command()
@click.option(
    "--messages",
    type=click.IntRange(min=1000),
    default=1_000_000,
    show_default=True,
    help="Number of messages in each half.",
)
@click.option("--directory", type=DIRECTORY, help="Data directory; must be empty or missing.  [default: temporary]")
@click.option("--keep", is_flag=True, help="Keep the data.")
def tour(messages: int, directory: Path | None, keep: bool) -> int:
    """Append a million messages, kill the writer in the middle of the second million, and show that nothing
    acknowledged is lost. Then show a queue: producers, consumers, one that disappears, and a message that nobody can
    process until it is redriven.

    \b
    Examples:
      python -m examples.tour
      python -m examples.tour --messages 20000 --directory ./tour-data --keep
    """
    with _place(directory, keep) as place:
        stage, begun = Stage(), time.monotonic()
        is_kept = Tour(place / "log", messages, stage).run()
        is_handled = QueueTour(place / "queue", max(messages // 20, 1000), stage).run()
        stage.say(f"Done in {time.monotonic() - begun:.1f} s.")
        return 0 if is_kept and is_handled else FAILED


@dataclass(slots=True)
class Tour:
    """Each scene shows one thing and returns what the later ones need."""

    directory: Path
    messages: int
    stage: Stage

    def run(self) -> bool:
        """Whether everything was as promised."""
        self.append()
        acknowledged = self.kill_a_writer()
        end = self.reopen(acknowledged)
        is_good = self.verify()
        is_whole = self.read_as_table(end)
        return end > acknowledged and is_good and is_whole

    def append(self) -> None:
        self.stage.scene(f"{self.messages:,} messages of {MESSAGE_BYTES} bytes, each commit synced before it counts")
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        asyncio.run(self._append())

    async def _append(self) -> None:
        async with await Shard.open(self.directory, OPTIONS) as shard:
            log = await shard.create(LOG)
            begun = time.monotonic()
            with self.stage.counting("appending", self.messages) as report:
                await append_messages(shard, log, 0, self.messages, report)
            took_s, metrics = time.monotonic() - begun, shard.metrics
        rate = self.messages / took_s
        self.stage.say(
            f"{rate:,.0f} messages/s, {size_text(rate * MESSAGE_BYTES)}/s in {metrics.journal_syncs:,} syncs"
        )

    def kill_a_writer(self) -> Offset:
        """The last offset the killed writer had acknowledged."""
        self.stage.scene(f"a second {self.messages:,}, by another process that is killed in the middle")
        kill_at = Offset(self.messages + self.messages // 2)
        with self.stage.counting("appending", self.messages, first=self.messages) as report:
            acknowledged = append_and_kill(self.directory, LOG, self.messages, self.messages, kill_at, report)
        self.stage.say(f"killed (SIGKILL); the last offset it had acknowledged is {acknowledged:,}")
        return acknowledged

    def reopen(self, acknowledged: Offset) -> int:
        """Where the log ends now."""
        self.stage.scene("opening the directory again")
        end = asyncio.run(self._reopen())
        self.stage.say(f"acknowledged up to offset {acknowledged:,}, kept up to offset {end - 1:,}")
        if end > acknowledged:
            self.stage.good(f"nothing acknowledged was lost; {end - 1 - acknowledged:,} more had reached the journal")
        else:
            self.stage.bad(f"{acknowledged - end + 1:,} acknowledged messages are lost")
        return end

    async def _reopen(self) -> int:
        """End of the log."""
        begun = time.monotonic()
        async with await Shard.open(self.directory, OPTIONS) as shard:
            took_s, frames = time.monotonic() - begun, shard.metrics.replayed_frames
            self.stage.say(f"{frames:,} frames replayed from the journal in {took_s:.2f} s")
            return shard.log(LOG).end

    def verify(self) -> bool:
        self.stage.scene("checking every batch")
        begun = time.monotonic()
        report = check(self.directory)
        took_s = time.monotonic() - begun
        self.stage.say(f"{report.records:,} records in {report.batches:,} batches checked in {took_s:.2f} s")
        for finding in report.findings:
            self.stage.bad(f"{finding.file}, byte {finding.position}: {finding.reason}")
        if not report.findings:
            self.stage.good("no damage")
        return not report.findings

    def read_as_table(self, end: int) -> bool:
        """Whether there is a row for each offset."""
        self.stage.scene("the whole log as one Arrow table")
        view, begun = DirectoryView(self.directory), time.monotonic()
        try:
            summary = summarise(view.batches(view.log(LOG), 0))
        except ImportError:
            self.stage.say(f"left out: pyarrow is not installed; get it with {INSTALL}")
            return True
        took_s = time.monotonic() - begun
        self.stage.say(
            f"{summary.rows:,} rows, {size_text(summary.value_bytes)} of values, offsets "
            f"{summary.offsets[0]:,} to {summary.offsets[1]:,}, read and counted in {took_s:.2f} s"
        )
        for key, count in summary.top_keys:
            self.stage.say(f"  {key}  {count:,}")
        if summary.rows != end:
            self.stage.bad(f"{summary.rows:,} rows, {end:,} were kept")
        return summary.rows == end


@contextmanager
def _place(directory: Path | None, keep: bool) -> Iterator[Path]:
    """An empty directory that is gone afterwards, unless it is to be kept."""
    place = Path(tempfile.mkdtemp(prefix="penstock-tour-")) if directory is None else directory
    if directory is not None and directory.exists() and any(directory.iterdir()):
        raise InvalidArgument(f"{directory} is not empty: the tour makes a directory of its own, name another one")
    try:
        yield place
    finally:
        if keep:
            click.echo(f"   The data is in {place}")
        else:
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    run(tour)
