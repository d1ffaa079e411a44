"""Syncs that fail (EIO through a preloaded shim), with what they were to cover lost or still in the page cache."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.crash.appends import SMALL, look_at, message
from tests.crash.history import Acked, Begun, Contents, Event, Promises, Refused, value_of
from tests.crash.rounds import Fire
from tests.crash.trace import ACK, NEVER, SYNC, Call, batches_of, read_trace
from tests.support.cli import COMMAND, ENVIRONMENT, offsets
from tests.support.faults import kill, shim_environment, wait_until

from penstock.core.types import Durability

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("shim")]

GIVEN = [message(number) for number in range(5000)]


@pytest.mark.parametrize("loses", [False, True], ids=["kept-in-cache", "lost"])
@pytest.mark.parametrize("nth", [9, 30, 77])
def test_nothing_is_acknowledged_after_a_failed_sync_of_the_journal(tmp_path: Path, nth: int, loses: bool) -> None:
    """One sync fails, later ones would succeed: that they are not believed is the point."""
    trace = tmp_path / "trace"
    environment = shim_environment(trace, fail=f"/journal/ {nth} 1", loses=loses)
    command = [*COMMAND, "log", "append", str(tmp_path / "data"), "--log", "a", "--batch", "20", "--depth", "4", *SMALL]
    ran = subprocess.run(
        command, input=b"\n".join(GIVEN), env={**ENVIRONMENT, **environment}, capture_output=True, timeout=120
    )
    if b"no further journal file yet" in ran.stderr:
        # It was the sync of a file that was being made, of which nothing was believed yet: another one was made.
        assert ran.returncode == 0
        assert list(look_at(tmp_path / "data")["a"].records.values()) == GIVEN
        return
    assert ran.returncode == 1
    assert b"its outcome is unknown" in ran.stderr
    assert os.strerror(5).encode() in ran.stderr
    assert _printed_for_later_syncs(read_trace(trace)) == []
    found = look_at(tmp_path / "data")["a"].records
    assert len(found) % 20 == 0 or len(found) == len(GIVEN)
    assert len(found) > max(offsets(ran.stdout), default=-1)
    assert list(found.values()) == GIVEN[: len(found)]


def _printed_for_later_syncs(calls: list[Call]) -> list[int]:
    """Offsets that no sync before the failed one covers. What such a sync covers may still be on its way to the
    output."""
    failed = next(call for call in calls if call.kind == SYNC and call.result != 0)
    believed = [call for call in calls if call.kind != SYNC or call.begun < failed.begun]
    synced = [batch.end for batch in batches_of(believed) if batch.log == 1 and batch.synced != NEVER]
    printed = [int(call.data) for call in calls if call.kind == ACK]
    return [offset for offset in printed if offset >= max(synced, default=0)]


@pytest.mark.parametrize("loses", [False, True], ids=["kept-in-cache", "lost"])
@pytest.mark.parametrize("nth", [1, 4, 15])
def test_a_segment_whose_sync_failed_is_written_anew(tmp_path: Path, nth: int, loses: bool) -> None:
    """Twice: the second writer opens what the first one mended."""
    fail = shim_environment(tmp_path / "trace", watch=".seg", fail=f".seg {nth} 1", loses=loses)
    fire, promises = Fire(tmp_path, fail), Promises(Durability.INTERVAL)
    for mended in range(1, 3):
        process = fire.start(tmp_path / "data")
        try:
            fire.wait_until_said(process, "log written anew", mended)
            fire.wait_for_lines(process, 1500)
        finally:
            kill(process)
        promises.check(fire.events(), fire.look(tmp_path / "data"))
    assert promises.acknowledged > 500
    assert fire.said("log stopped") == 0


def test_a_log_whose_segments_cannot_be_synced_is_stopped_and_the_others_go_on(tmp_path: Path) -> None:
    fire = Fire(tmp_path, shim_environment(tmp_path / "trace", watch=".seg", fail="/logs/c0@1/ 5 0", loses=True))
    process = fire.start(tmp_path / "data")
    try:
        fire.wait(process, lambda: any((tmp_path / "data").glob("aside/*")), "frames are kept aside")
        fire.wait(process, lambda: any(isinstance(event, Refused) for event in fire.events()), "c0 is refused")
        fire.wait_for_lines(process, 6000)  # several times the journal: the stopped log does not hold it
    finally:
        kill(process)
    events = fire.events()
    refusals = [event for event in events if isinstance(event, Refused)]
    assert {refused.code for refused in refusals} == {"log-poisoned"}
    assert all("'c0'" in refused.text and os.strerror(5) in refused.text for refused in refusals)
    found = fire.look(tmp_path / "data")
    _check_acknowledged(events, found)
    assert [name for name, contents in found.items() if contents.fault is not None] == []


def _check_acknowledged(events: list[Event], found: dict[str, Contents]) -> None:
    begun = {event.id: event for event in events if isinstance(event, Begun)}
    for event in events:
        if not isinstance(event, Acked) or begun[event.id].level is Durability.MEMORY:
            continue
        for part, ((name, count), first) in enumerate(zip(begun[event.id].parts, event.offsets, strict=True)):
            there = found[name].records
            for row in range(count):
                if first + row >= found[name].start:
                    assert there.get(first + row) == value_of(event.id, part, row), (event, name, row)


def test_a_sync_that_fails_while_the_directory_is_opened_is_an_error_and_harms_nothing(tmp_path: Path) -> None:
    fire, promises = Fire(tmp_path), Promises(Durability.INTERVAL)
    process = fire.start(tmp_path / "data")
    try:
        fire.wait_for_lines(process, 1000)
    finally:
        kill(process)
    fire.environment = shim_environment(tmp_path / "trace", fail="/data 1 0", loses=False)
    process = fire.start(tmp_path / "data")
    wait_until(lambda: process.poll() is not None, "ended by itself")
    assert process.returncode != 0
    assert os.strerror(5) in fire.errors.read_text()
    promises.check(fire.events(), fire.look(tmp_path / "data"))
