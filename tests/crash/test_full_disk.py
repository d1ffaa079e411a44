"""A disk that fills up, for real: a small mount. With a reserve publishes are refused while settlements go on; without
one there is ENOSPC everywhere, and nothing that was acknowledged may suffer."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.history import Acked, Promises, read_back
from tests.crash.rounds import Fire
from tests.crash.writer import OPTIONS
from tests.support.cli import offsets, penstock
from tests.support.faults import Image, kill, mounted, wait_until
from tests.support.loop import run

from penstock.core.types import Durability
from penstock.log.columns import Columns
from penstock.log.journal.journal import JournalOptions
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.records import LogSettings
from penstock.log.shard import Shard

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("mounts")]

DISK_BYTES = 48 << 20
RESERVE_BYTES = 12 << 20
SMALL = ("--journal-file-bytes", "1MiB", "--journal-limit-bytes", "4MiB", "--segment-bytes", "1MiB")
SMALL_OPTIONS = ShardOptions(JournalOptions(1 << 20, 4 << 20, 512 << 10), disk_reserve_bytes=RESERVE_BYTES)
RESERVED = (*SMALL, "--disk-reserve", str(RESERVE_BYTES))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    image = Image.make(tmp_path / "image", DISK_BYTES)
    with mounted(image, tmp_path / "mount") as mount:
        yield mount
    image.path.unlink()


def _kilobytes(count: int, first: int = 0) -> list[bytes]:
    return [(b"%d " % number).ljust(1024, b"x") for number in range(first, first + count)]


def _free_bytes(mount: Path) -> int:
    figures = os.statvfs(mount)
    return figures.f_bavail * figures.f_frsize


def _fill(mount: Path, leave_bytes: int) -> Path:
    """A file that takes all but so much."""
    junk = mount / "junk"
    with junk.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while (size := _free_bytes(mount) - leave_bytes) > 0:
            file.write(bytes(min(size, 1 << 20)))
    return junk


def _trim(directory: Path, keep: int) -> None:
    async def main() -> None:
        async with await Shard.open(directory, SMALL_OPTIONS) as shard:
            log = shard.log("a")
            await shard.trim(log, log.end - keep)
            await shard.checkpoint()

    run(main())


def _run_until_full(fire: Fire, directory: Path) -> None:
    said, process = fire.said("disk is full"), fire.start(directory)
    try:
        wait_until(lambda: process.poll() is not None or fire.said("disk is full") > said, "it ended or waits")
    finally:
        kill(process)


def test_below_the_reserve_only_settlements_are_taken_until_a_trim_frees_space(disk: Path) -> None:
    data, given = disk / "data", _kilobytes(60_000)
    refused = penstock("log", "append", data, "--log", "a", *RESERVED, given=b"\n".join(given), expected=1)
    told = re.search(rb"only (\d+) bytes of the disk are left .* disk_reserve is (\d+)", refused.stderr)
    assert told, refused.stderr
    assert int(told[1]) < int(told[2]) == RESERVE_BYTES
    published = offsets(refused.stdout)[-1] + 1
    assert published > 1000
    assert _free_bytes(disk) > RESERVE_BYTES // 2, "publishes ate into the reserve"

    settled = penstock("log", "append", data, "--log", "s", *RESERVED, "--purpose", "settle", given=b"done\n" * 500)
    assert offsets(settled.stdout)[-1] == 499
    again = penstock("log", "append", data, "--log", "a", *RESERVED, given=b"no\n", expected=1)
    assert b"disk_reserve" in again.stderr

    found = read_back(data, SMALL_OPTIONS)
    assert list(found["a"].records.values())[:published] == given[:published]
    _trim(data, keep=100)
    taken = penstock("log", "append", data, "--log", "a", *RESERVED, given=b"yes\n" * 500)
    assert offsets(taken.stdout)[-1] == found["a"].end + 499
    last = read_back(data, SMALL_OPTIONS)
    assert last["s"].records == dict.fromkeys(range(500), b"done")
    assert [*last["a"].records.values()] == [*given[found["a"].end - 100 : found["a"].end], *[b"yes"] * 500]


def test_a_trim_frees_the_space_of_segments_that_were_read_before(disk: Path) -> None:
    async def main() -> tuple[int, int]:
        async with await Shard.open(disk / "data", SMALL_OPTIONS) as shard:
            log = await shard.create(log_name("a"), LogSettings(segment_bytes=1 << 20))
            for first in range(0, 10_000, 100):
                await shard.append(log, Columns.of(_kilobytes(100, first)))
            await shard.checkpoint()
            for data in shard.reader.batches(log, 0):
                assert len(data) > 0
            del data
            before = _free_bytes(disk)
            await shard.trim(log, log.end)
            await shard.checkpoint()
            return before, _free_bytes(disk)

    before, after = run(main())
    assert after - before > 8 << 20


@pytest.mark.parametrize("left_bytes", [300 << 10, 1 << 20, 3 << 20])
def test_a_disk_that_is_full_under_load_costs_nothing_acknowledged(tmp_path: Path, disk: Path, left_bytes: int) -> None:
    """The writer has no reserve. It may wait or end; with space again it goes on, or the next one does."""
    fire, promises = Fire(tmp_path, arguments=("--keep-all",)), Promises(Durability.INTERVAL)
    process = fire.start(disk / "data")
    try:
        fire.wait_for_lines(process, 200)
        junk = _fill(disk, left_bytes)
        wait_until(lambda: process.poll() is not None or fire.said("disk is full") > 0, "the disk is full")
        junk.unlink()
        wanted = fire.lines() + 500
        wait_until(lambda: process.poll() is not None or fire.lines() >= wanted, "it ended or goes on")
    finally:
        kill(process)
    promises.check(fire.events(), fire.look(disk / "data"))
    process = fire.start(disk / "data")
    try:
        fire.wait_for_lines(process, 300)
    finally:
        kill(process)
    promises.check(fire.events(), fire.look(disk / "data"))
    assert sum(isinstance(event, Acked) for event in fire.events()) > 300


@pytest.mark.parametrize("left_bytes", [0, 64 << 10, 400 << 10])
def test_opening_on_a_full_disk_works_or_says_so_and_harms_nothing(tmp_path: Path, disk: Path, left_bytes: int) -> None:
    fire, promises = Fire(tmp_path, arguments=("--keep-all",)), Promises(Durability.INTERVAL)
    process = fire.start(disk / "data")
    try:
        fire.wait_for_lines(process, 1000)
    finally:
        kill(process)
    junk = _fill(disk, left_bytes)
    for _ in range(3):
        _run_until_full(fire, disk / "data")
    junk.unlink()
    promises.check(fire.events(), read_back(disk / "data", OPTIONS))
