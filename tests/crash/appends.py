"""`penstock log append` under fire, and what must be in the directory afterwards."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from penstock.log.options import ShardOptions
from tests.crash.history import Contents, read_back
from tests.support.cli import offsets, started
from tests.support.faults import PATIENCE_S, kill

SMALL = ("--journal-file-bytes", "256KiB", "--journal-limit-bytes", "1MiB", "--disk-reserve", "0")


def message(number: int) -> bytes:
    return b"message %d " % number + b"x" * (number * 7919 % 300)


def append_until(directory: Path, until_offset: int, *, depth: int, given: list[bytes]) -> int:
    """Feed the command until it has printed such an offset, kill it; the last offset it printed. `given` gets the
    messages that may be in the log now, by offset: those of an earlier run that were lost are given again."""
    with started("log", "append", directory, "--log", "a", "--depth", str(depth), "--batch", "50", *SMALL) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        watchdog = threading.Timer(PATIENCE_S, writer.kill)
        watchdog.start()
        try:
            printed, output = -1, b""
            while printed < until_offset:
                writer.stdin.write(b"".join(_more(given, 500)))
                writer.stdin.flush()
                output += writer.stdout.readline()
                printed = offsets(output)[-1]
        finally:
            watchdog.cancel()
            kill(writer)
        writer.stdin.close()
        output += writer.stdout.read()
    return offsets(output[: output.rfind(b"\n") + 1])[-1]


def _more(given: list[bytes], count: int) -> list[bytes]:
    fresh = [message(number) for number in range(len(given), len(given) + count)]
    given += fresh
    return [line + b"\n" for line in fresh]


def check_appended(directory: Path, given: list[bytes], printed: int) -> None:
    """What is there is a beginning of what was given and reaches at least to the last offset printed. Afterwards `given`
    is as long as the log."""
    found = look_at(directory)["a"]
    assert list(found.records) == list(range(len(found.records)))
    assert len(found.records) > printed
    assert list(found.records.values()) == given[: len(found.records)]
    del given[len(found.records) :]


def look_at(directory: Path) -> dict[str, Contents]:
    """A copy is opened, so that the directory stays as the crash left it."""
    copy = directory.with_name(f"{directory.name}-looked-at")
    shutil.copytree(directory, copy)
    try:
        return read_back(copy, ShardOptions(disk_reserve_bytes=0))
    finally:
        shutil.rmtree(copy)
