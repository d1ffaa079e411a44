"""`penstock log append`: a message a line, and the offset that is safe after each commit."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from penstock.cli.arguments import DIRECTORY, log_option, size_option
from penstock.cli.failures import INTERRUPTED
from penstock.cli.message.lines import LineReader
from penstock.cli.output import DATA_FORMATS, line_of, output_option
from penstock.core.errors import NoSuchLog
from penstock.core.types import Compression, Durability, LogName, Offset, Purpose
from penstock.log.columns import Columns
from penstock.log.journal.frames import MAX_FRAME_BYTES
from penstock.log.journal.journal import FILE_HEADER_BYTES, JournalOptions
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.shard import Shard
from penstock.log.threads import SWITCH_INTERVAL_S

# The batch size that the benchmarks of appending use; beyond it a commit gains little.
READY_MESSAGES = 500


@dataclass(frozen=True, slots=True)
class AppendRequest:
    directory: Path
    name: LogName
    durability: Durability | None
    compression: Compression | None
    segment_bytes: int | None
    separator: bytes
    batch_messages: int
    depth: int
    purpose: Purpose
    options: ShardOptions

    @property
    def max_batch_bytes(self) -> int:
        """Half a frame: the other half is room for what columns add to many short lines."""
        return self.options.journal.max_frame_bytes // 2

    def settings(self, existing: LogSettings) -> LogSettings:
        """The settings asked for, over those there are."""
        asked = {
            "durability": self.durability,
            "compression": self.compression,
            "segment_bytes": self.segment_bytes,
        }
        return msgspec.structs.replace(existing, **{name: value for name, value in asked.items() if value is not None})


@click.command()
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@log_option("The log to append to; created if it does not exist.", required=True)
@click.option(
    "--durability",
    type=click.Choice(["commit", "interval", "memory"]),
    help="When a commit counts: journal synced, journal written (synced every second), or staged in memory. "
    "New logs have `commit`; a log that exists is changed.",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "lz4", "zstd"]),
    help="Compression of new batches, where it saves space.  [default for a new log: none]",
)
@click.option(
    "--key-separator", metavar="SEP", default="", help=r"Separator between key and value in a line (\t: a tab)."
)
@click.option(
    "--batch",
    "batch_messages",
    type=click.IntRange(min=1),
    default=READY_MESSAGES,
    help="Largest number of messages in one commit.  [default: 500]",
)
@click.option(
    "--depth", type=click.IntRange(min=1), default=1, show_default=True, help="Number of commits in progress at once."
)
@click.option(
    "--purpose",
    type=click.Choice(["publish", "settle"]),
    default="publish",
    show_default=True,
    help="Kind of messages: settlements are accepted even when the disk is too full for publishes.",
)
@size_option("--segment-bytes", "Roll segments of this log at this size.  [new logs: 64MiB]")
@size_option("--journal-file-bytes", "Size of a journal file.  [default: 32MiB]")
@size_option("--journal-limit-bytes", "Size of the whole journal.  [default: 1GiB]")
@size_option("--disk-reserve", "Free space below which publishes are refused.  [default: 1GiB or 5%]")
@output_option("text")
def append(
    directory: Path,
    name: LogName,
    durability: str | None,
    compression: str | None,
    key_separator: str,
    batch_messages: int,
    depth: int,
    purpose: str,
    segment_bytes: int | None,
    journal_file_bytes: int | None,
    journal_limit_bytes: int | None,
    disk_reserve: int | None,
    output: str,
) -> int:
    """Append each line of standard input as a message.

    After each commit the offset of its last message is printed: that message and all before it are stored with the
    durability of the log. On Ctrl-C or SIGTERM the commits in progress are finished first.

    \b
    Examples:
      seq 1000 | penstock log append ./data --log numbers
      tail -f app.log | penstock log append ./data --log logs/app --compression zstd
      echo 'user-7:signed in' | penstock log append ./data --log events --key-separator :
    """
    request = AppendRequest(
        directory=directory,
        name=name,
        durability=None if durability is None else Durability[durability.upper()],
        compression=None if compression is None else Compression[compression.upper()],
        segment_bytes=segment_bytes,
        separator=key_separator.replace(r"\t", "\t").encode(),
        batch_messages=batch_messages,
        depth=depth,
        purpose=Purpose[purpose.upper()],
        options=_shard_options(journal_file_bytes, journal_limit_bytes, disk_reserve),
    )
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return asyncio.run(append_lines(request, sys.stdin.fileno(), _printer(output)))


async def append_lines(request: AppendRequest, descriptor: int, report: Callable[[Offset], None]) -> int:
    """Append what the descriptor gives until it ends; the exit code."""
    async with await Shard.open(request.directory, request.options) as shard:
        log = await _prepared_log(shard, request)
        lines = LineReader(descriptor)
        interrupted = stop_on_signal(lines)
        await _Appending(shard, log, request, report).run(lines)
    return INTERRUPTED if signal.SIGINT in interrupted else 0


@dataclass(slots=True)
class _Appending:
    shard: Shard
    log: Log
    request: AppendRequest
    report: Callable[[Offset], None]

    async def run(self, lines: LineReader) -> None:
        """Keep up to `depth` commits under way and report each as soon as it and those before it are done. What was
        begun is awaited whatever happens."""
        under_way: deque[asyncio.Task[Offset]] = deque()
        taking: asyncio.Task[list[bytes]] | None = None
        is_at_end = False
        try:
            while under_way or not is_at_end:
                if taking is None and not is_at_end and len(under_way) < self.request.depth:
                    taking = asyncio.create_task(self._take(lines))
                await _first_of(under_way[0] if under_way else None, taking)
                if under_way and under_way[0].done():
                    self.report(under_way.popleft().result())
                if taking is not None and taking.done():
                    batch, taking = taking.result(), None
                    is_at_end = not batch
                    under_way += [asyncio.create_task(self._commit(batch))] if batch else []
        finally:
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _take(self, lines: LineReader) -> list[bytes]:
        return await lines.take(self.request.batch_messages, self.request.max_batch_bytes)

    async def _commit(self, lines: list[bytes]) -> Offset:
        """The last offset of the lines."""
        columns = columns_of(lines, self.request.separator)
        first = await self.shard.append(self.log, columns, self.request.purpose)
        return Offset(first + columns.count - 1)


async def _first_of(commit: asyncio.Task[Offset] | None, taking: asyncio.Task[list[bytes]] | None) -> None:
    """Returns when one of the two is done."""
    tasks: list[asyncio.Task[Offset] | asyncio.Task[list[bytes]]] = []
    tasks += [commit] if commit is not None else []
    tasks += [taking] if taking is not None else []
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


def columns_of(lines: list[bytes], separator: bytes) -> Columns:
    """A line without the separator is a value without a key."""
    if not separator:
        return Columns.of(lines)
    parts = [line.partition(separator) for line in lines]
    keys = [key if found else b"" for key, found, _ in parts]
    return Columns.of([value if found else key for key, found, value in parts], keys=keys)


async def _prepared_log(shard: Shard, request: AppendRequest) -> Log:
    try:
        log = shard.log(request.name)
    except NoSuchLog:
        return await shard.create(request.name, request.settings(LogSettings()))
    if (settings := request.settings(log.settings)) != log.settings:
        await shard.change(log, settings)
        click.echo(f"penstock: the settings of log {log.name!r} were changed", err=True)
    return log


def stop_on_signal(lines: LineReader) -> list[signal.Signals]:
    """The signals that came, as they come."""
    came: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        came.append(number)
        lines.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    return came


def _shard_options(file_bytes: int | None, limit_bytes: int | None, reserve_bytes: int | None) -> ShardOptions:
    """What is not given follows from what is: a small journal gets small files, small files take small frames."""
    usual = JournalOptions()
    limit = usual.limit_bytes if limit_bytes is None else limit_bytes
    size = min(usual.file_bytes, limit // 4) if file_bytes is None else file_bytes
    frame = min(MAX_FRAME_BYTES, size - FILE_HEADER_BYTES)
    return ShardOptions(journal=JournalOptions(size, limit, frame), disk_reserve_bytes=reserve_bytes)


def _printer(output: str) -> Callable[[Offset], None]:
    def show(offset: Offset) -> None:
        line = line_of({"offset": offset}, output) if output in DATA_FORMATS else b"%d\n" % offset
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    return show
