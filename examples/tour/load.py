"""What the tour puts into its log: messages, by this process and by one that is killed while it appends."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.core.errors import ErrorCode, PenstockError
from penstock.core.types import LogName, Offset
from penstock.log.columns import Columns
from penstock.log.partition import Log
from penstock.log.shard import Shard

MESSAGE_BYTES = 256
BATCH_MESSAGES = 500
# Enough that the disk always has a group to sync while the next one is made.
DEPTH = 8
SEPARATOR = "|"

Report = Callable[[Offset], None]
"""called with each durable offset"""

_FILLER = b"." * MESSAGE_BYTES


def key_of(number: int) -> bytes:
    """The square makes low numbers frequent: some customers order more than others."""
    return b"customer-%02d" % ((number * 7919 % 100) ** 2 // 100)


def value_of(number: int) -> bytes:
    return (b"order %d " % number + _FILLER)[:MESSAGE_BYTES]


async def append_messages(shard: Shard, log: Log, first: int, count: int, report: Report) -> None:
    """Messages first, first + 1, …, in batches, several commits under way at once."""
    under_way: deque[tuple[int, asyncio.Task[Offset]]] = deque()
    for columns in _batches(first, count):
        under_way.append((columns.count, asyncio.create_task(shard.append(log, columns))))
        # Let the task stage its batch now: the order of staging is the order in the log.
        await asyncio.sleep(0)
        if len(under_way) >= DEPTH:
            await _report_oldest(under_way, report)
    while under_way:
        await _report_oldest(under_way, report)


async def _report_oldest(under_way: deque[tuple[int, asyncio.Task[Offset]]], report: Report) -> None:
    count, commit = under_way.popleft()
    report(Offset(await commit + count - 1))


def _batches(first: int, count: int) -> Iterator[Columns]:
    for start in range(first, first + count, BATCH_MESSAGES):
        numbers = range(start, min(start + BATCH_MESSAGES, first + count))
        yield Columns.of([value_of(number) for number in numbers], keys=[key_of(number) for number in numbers])


class WriterFailed(PenstockError):
    """The writing process ended before it was to be killed."""

    code = ErrorCode.CLOSED


def append_and_kill(directory: Path, log: LogName, first: int, count: int, kill_at: Offset, report: Report) -> Offset:
    """`penstock log append` in a process of its own, killed without warning once it has acknowledged `kill_at`.
    Returns the last offset it said was durable."""
    command = [sys.executable, "-m", "penstock.cli.main", "log", "append", str(directory), "--log", log]
    command += ["--key-separator", SEPARATOR, "--depth", str(DEPTH), "--disk-reserve", "0"]
    acknowledged = Offset(-1)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        feeder = threading.Thread(target=_feed, args=(writer, first, count), name="penstock-tour-feeder")
        feeder.start()
        try:
            for line in writer.stdout:
                acknowledged = Offset(int(line))
                report(acknowledged)
                if acknowledged >= kill_at:
                    break
        finally:
            writer.kill()
            feeder.join()
        late, said = _last_complete(writer.stdout.read()), _last_line(writer)
    if acknowledged < kill_at:
        raise WriterFailed(f"the writing process ended by itself after offset {acknowledged}: {said}")
    return max(acknowledged, late)


def _feed(writer: subprocess.Popen[bytes], first: int, count: int) -> None:
    """Ends early when the writer is gone, as it will be."""
    assert writer.stdin is not None
    with contextlib.suppress(BrokenPipeError), writer.stdin as lines:
        for number in range(first, first + count):
            lines.write(key_of(number) + SEPARATOR.encode() + value_of(number) + b"\n")


def _last_line(writer: subprocess.Popen[bytes]) -> str:
    """Of what it said on standard error."""
    assert writer.stderr is not None
    said = writer.stderr.read().decode(errors="replace").splitlines()
    return said[-1] if said else "it said nothing"


def _last_complete(output: bytes) -> Offset:
    """What the pipe still held when the writer died; a line it did not finish does not count."""
    whole = output.rpartition(b"\n")[0].split()
    return Offset(int(whole[-1])) if whole else Offset(-1)
