"""`penstock log append` under fire, and what must be in the directory afterwards."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path
from typing import IO

from tests.crash.history import BrokenPromise, Contents, read_back
from tests.support.cli import COMMAND, ENVIRONMENT, offsets, started
from tests.support.faults import PATIENCE_S, kill

from penstock.log.options import ShardOptions

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
    """What is there is a beginning of what was given and reaches at least to the last offset printed. Afterwards
    `given` is as long as the log."""
    check_verified(directory)
    found = look_at(directory)["a"]
    assert list(found.records) == list(range(len(found.records)))
    assert len(found.records) > printed
    assert list(found.records.values()) == given[: len(found.records)]
    del given[len(found.records) :]


def check_verified(directory: Path) -> None:
    """`log verify` finds no damage as it was left."""
    ran = subprocess.run([*COMMAND, "log", "verify", directory], capture_output=True, env=ENVIRONMENT)
    if ran.returncode:
        raise BrokenPromise((ran.stdout + ran.stderr).decode())


def look_at(directory: Path) -> dict[str, Contents]:
    """A copy is opened, so that the directory stays as the crash left it."""
    copy = directory.with_name(f"{directory.name}-looked-at")
    shutil.copytree(directory, copy)
    try:
        return read_back(copy, ShardOptions(disk_reserve_bytes=0))
    finally:
        shutil.rmtree(copy)


def many_messages(directory: Path, count: int, compression: str) -> int:
    """Append so many small messages with one command; how many came back as they were."""
    given = directory.with_name(f"{directory.name}-given")
    with given.open("wb") as file:
        file.writelines(b"small message %d\n" % number for number in range(count))
    command: list[str | Path] = ["log", "append", directory, "--log", "a", "--depth", "8", "--compression", compression]
    with given.open("rb") as file:
        ran = run_fed(command, file)
    assert offsets(ran.stdout)[-1] == count - 1
    found = read_back(directory, ShardOptions(disk_reserve_bytes=0))["a"].records
    return sum(found[number] == b"small message %d" % number for number in range(count))


def run_fed(arguments: list[str | Path], source: IO[bytes]) -> subprocess.CompletedProcess[bytes]:
    command = [*COMMAND, *map(str, arguments), "--disk-reserve", "0"]
    return subprocess.run(command, stdin=source, capture_output=True, check=True, env=ENVIRONMENT)
