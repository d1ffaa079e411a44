"""Faults of the disk that pass: storage waits for them, nothing is lost, and no thread ends. What nobody expected stops
acknowledgements, and says so."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from tests.support.engines import make_log, open_engine, put, values_of
from tests.support.loop import run
from tests.support.simdisk import SimDisk

from penstock.core.errors import JournalFailed, LogPoisoned
from penstock.log.columns import Columns
from penstock.log.journal.frames import Entry
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.records import Edit
from penstock.log.segments.written import WrittenLog
from penstock.log.shard import Shard
from penstock.log.upkeep.faults import SyncFailed, Telling, can_pass

PASSING = [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR]


def fault(code: int) -> OSError:
    return OSError(code, os.strerror(code))


@pytest.mark.parametrize("code", PASSING)
@pytest.mark.parametrize(
    ("call", "part"),
    [
        ("create", "journal/"),
        ("allocate", "journal/"),
        ("open", "journal/"),
        ("write", "journal/"),
        ("open", "logs/"),
        ("create", "logs/"),
        ("write", "logs/"),
        ("make_directory", "logs/"),
        ("unlink", ""),
        ("create", "checkpoint"),
        ("write", "checkpoint"),
        ("rename", "checkpoint"),
    ],
)
def test_storage_waits_for_what_can_pass_and_loses_nothing(call: str, part: str, code: int) -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    outcomes = [put(engine, log, b"%d" % number * 300) for number in range(20)]
    disk.fail(call, part, fault(code), times=3)
    for _ in range(3):
        engine.commit.step(sync=True)
        engine.keeper.step()
        engine.keeper.write_checkpoint()
    for number in range(20, 60):  # several files of the journal
        outcomes.append(put(engine, log, b"%d" % number * 300))
        engine.commit.step(sync=True)
        engine.keeper.step()
    disk.heal()
    for _ in range(3):
        engine.commit.step(sync=True)
        engine.keeper.step()
    assert engine.commit.failure is None
    assert log.fault is None
    assert all(outcome.is_acknowledged for outcome in outcomes)
    expected = [(number, b"%d" % number * 300) for number in range(60)]
    assert values_of(open_engine(disk.crash(random.Random(code))), "a") == expected


def half_of_it(entries: list[Entry], first: int, logs: dict[int, WrittenLog], *_: object) -> int:
    """As the fold, which ends in the middle of the frame."""
    if entries[first].log in logs:
        logs[entries[first].log].take(entries[first])
    raise MemoryError


def nothing(*_: object) -> NoReturn:
    raise MemoryError


@pytest.mark.parametrize(
    ("place", "failing"),
    [
        ("penstock.log.journal.journal.encode_frame", nothing),
        ("penstock.log.segments.keeper.fold", half_of_it),
        ("penstock.log.segments.written.WrittenLog.take", nothing),
        ("penstock.log.segments.written.WrittenLog.flush", nothing),
        ("penstock.log.segments.keeper.write_checkpoint", nothing),
        ("penstock.log.segments.keeper.Keeper._capture", nothing),
        ("penstock.log.segments.rescue.WrittenLog.restored", nothing),
    ],
)
def test_storage_waits_for_memory_and_loses_nothing(
    place: str, failing: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log, other = make_log(engine), make_log(engine, "b")
    outcomes = [put(engine, log, b"0"), put(engine, other, b"0")]
    engine.commit.step(sync=True)
    engine.keeper.step()
    for number in range(1, 6):
        outcomes += [put(engine, log, b"%d" % number), put(engine, other, b"%d" % number)]
        if number == 3:
            disk.fail("sync", "logs/a", fault(errno.EIO))  # the log has to be written anew, for which memory lacks too
        with monkeypatch.context() as patch:
            patch.setattr(place, failing)
            for _ in range(2):
                engine.commit.step(sync=True)
                engine.keeper.step()
                engine.keeper.write_checkpoint()
    disk.heal()
    engine.keeper._next_mend = 0.0
    engine.commit.step(sync=True)
    while not engine.keeper.write_checkpoint():
        engine.keeper._next_mend = 0.0
    assert engine.commit.failure is None
    assert (log.fault, other.fault) == (None, None)
    assert all(outcome.is_acknowledged for outcome in outcomes)
    again = open_engine(disk.crash(random.Random(0)))
    expected = [(number, b"%d" % number) for number in range(6)]
    assert values_of(again, "a") == values_of(again, "b") == expected


@pytest.mark.parametrize("code", PASSING)
def test_a_segment_that_failed_and_cannot_be_written_anew_yet_is_not_given_up(code: int) -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    put(engine, log, b"0")
    engine.commit.step(sync=True)
    disk.fail("sync", "logs/a", fault(errno.EIO))
    disk.fail("create", "logs/a", fault(code), times=5)
    disk.fail("open", "logs/a", fault(code), times=5)
    engine.keeper.write_checkpoint()
    put(engine, log, b"1")
    engine.commit.step(sync=True)
    assert not engine.keeper.write_checkpoint()
    disk.heal()
    engine.keeper._next_mend = 0.0
    while not engine.keeper.write_checkpoint():
        continue
    assert log.fault is None
    assert values_of(open_engine(disk.crash(random.Random(0)))) == [(0, b"0"), (1, b"1")]


def test_a_fold_that_breaks_off_in_the_middle_of_a_cut_is_made_anew() -> None:
    """The file that is cut has to be read: without a descriptor the fold would be left half done."""
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    for number in range(4):
        put(engine, log, b"%d" % number)
        engine.commit.step(sync=True)
    assert engine.keeper.write_checkpoint()
    engine.stage_truncate(log, 2, 2, None, lambda error: None)
    put(engine, log, b"two")
    engine.commit.step(sync=True)
    disk.fail("open", "logs/a", fault(errno.EMFILE), times=2)
    engine.keeper.step()
    engine.stage_edit(log, Edit(start=1), lambda error: None)
    engine.commit.step(sync=True)
    engine.keeper.step()
    disk.heal()
    engine.keeper._next_mend = 0.0
    while not engine.keeper.write_checkpoint():
        continue
    assert log.fault is None
    again = open_engine(disk.crash(random.Random(0)))
    assert (again.log("a").start, again.log("a").end) == (1, 3)
    assert values_of(again)[-2:] == [(1, b"1"), (2, b"two")]


def test_a_failed_sync_never_passes_whatever_its_reason() -> None:
    assert can_pass(fault(errno.ENOSPC))
    assert not can_pass(SyncFailed.of(fault(errno.ENOSPC)))
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    disk.fail("sync", "journal/", fault(errno.ENOSPC))
    put(engine, log, b"unknown")
    engine.commit.step(sync=True)
    assert engine.commit.failure is not None


def test_what_goes_on_failing_is_told_once_a_minute_with_how_often_it_was(caplog: pytest.LogCaptureFixture) -> None:
    telling = Telling(logging.getLogger("penstock.test"), quiet_s=3600.0)
    for _ in range(476):
        telling.warn("write", "segment not written log=%s", "a")
        telling.warn("sync", "segment not synced log=%s", "a")
    assert [record.getMessage() for record in caplog.records] == [
        "segment not written log=a",
        "segment not synced log=a",
    ]
    telling._told_at["write"] -= 3600.0
    telling.warn("write", "segment not written log=%s", "b")
    assert caplog.records[-1].getMessage() == "segment not written log=b times=476"


@pytest.mark.parametrize("code", PASSING)
def test_a_disk_that_stays_full_is_told_in_a_few_lines_however_many_logs_there_are(
    code: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    logs = [make_log(engine, f"log-{number}") for number in range(30)]
    for call in ("create", "allocate", "open", "write", "make_directory", "rename"):
        disk.fail(call, "", fault(code), times=1_000_000)
    for number in range(20):
        for log in logs:
            put(engine, log, b"%d" % number * 300)
        engine.commit.step(sync=True)
        engine.keeper.step()
        engine.keeper.write_checkpoint()
    disk.heal()
    assert len(caplog.records) <= 10, [record.getMessage() for record in caplog.records]


def test_housekeeping_that_breaks_off_stops_acknowledgements_loudly(tmp_path: Path) -> None:
    async def live() -> None:
        options = ShardOptions(disk_reserve_bytes=0, housekeeping_s=0.01)
        async with await Shard.open(tmp_path, options) as shard:
            log = await shard.create(log_name("a"))
            shard._housekeeper.retain = _broken  # type: ignore[method-assign]  # what nobody expected
            await until(lambda: shard.failure is not None)
            with pytest.raises(JournalFailed, match="housekeeping broke off: KeyError"):
                await shard.append(log, Columns.of([b"refused"]))

    run(live())


def test_housekeeping_goes_on_after_what_can_happen(tmp_path: Path) -> None:
    async def live() -> None:
        options = ShardOptions(disk_reserve_bytes=0, housekeeping_s=0.01)
        async with await Shard.open(tmp_path, options) as shard:
            calls: list[int] = []

            def fails() -> None:
                calls.append(1)
                raise OSError(errno.EMFILE, "too many open files") if len(calls) % 2 else LogPoisoned("a", "stopped")

            shard._housekeeper.retain = fails  # type: ignore[method-assign]  # a disk that fails
            await until(lambda: len(calls) >= 5)
            assert shard.failure is None
            assert shard.metrics.housekeeping_failures >= 4

    run(live())


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110  # threads make it so
        await asyncio.sleep(0.01)


def _broken() -> None:
    raise KeyError("nobody expected this")
