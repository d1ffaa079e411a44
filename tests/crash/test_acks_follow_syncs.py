"""kill -9 does not test syncing, since the page cache survives it. A preloaded shim watches the calls instead: no
acknowledgement leaves the process before the sync that covers it has returned."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.crash.history import Acked, Begun, Opened, decode_events
from tests.crash.rounds import Fire
from tests.crash.trace import ACK, TracedBatch, batches_of, read_trace
from tests.support.cli import COMMAND, ENVIRONMENT, lines
from tests.support.faults import kill, shim_environment

from penstock.core.types import Durability

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("shim")]

SMALL = ("--journal-file-bytes", "256KiB", "--journal-limit-bytes", "1MiB", "--disk-reserve", "0")
LYING_APPEND = (
    "from tests.crash.writer import lie_about_syncs as lie; lie(); from penstock.cli.main import main; main()"
)


def _traced_append(place: Path, command: list[str], *arguments: str) -> Path:
    trace = place / "trace"
    given = [*command, "log", "append", str(place / "data"), "--log", "a", *SMALL, *arguments]
    environment = {**ENVIRONMENT, **shim_environment(trace)}
    subprocess.run(given, input=lines(4000), env=environment, check=True, capture_output=True, timeout=120)
    return trace


def _early_acks_of_append(trace: Path) -> list[int]:
    """Offsets that were printed before everything up to them was synced."""
    calls = read_trace(trace)
    batches = [batch for batch in batches_of(calls) if batch.log == 1]
    printed = [(int(call.data), call.begun) for call in calls if call.kind == ACK]
    assert printed[-1][0] == 3999
    assert len(batches) > 10
    return [offset for offset, told in printed if _last_synced(batches, offset) > told]


def _last_synced(batches: list[TracedBatch], offset: int) -> int:
    covered = [batch for batch in batches if batch.first <= offset]
    assert max(batch.end for batch in covered) > offset, f"offset {offset} was never written"
    return max(batch.synced for batch in covered)


@pytest.mark.parametrize("depth", ["1", "8"])
def test_append_prints_no_offset_before_its_sync(tmp_path: Path, depth: str) -> None:
    trace = _traced_append(tmp_path, COMMAND, "--batch", "20", "--depth", depth)
    assert _early_acks_of_append(trace) == []


def test_append_does_not_wait_for_a_sync_that_nobody_asked_for(tmp_path: Path) -> None:
    trace = _traced_append(tmp_path, COMMAND, "--batch", "20", "--durability", "interval")
    assert _early_acks_of_append(trace), "every offset came after a sync: is `interval` the same as `commit`?"


def test_an_append_that_prints_before_the_sync_is_found_out(tmp_path: Path) -> None:
    trace = _traced_append(tmp_path, [sys.executable, "-c", LYING_APPEND], "--batch", "20")
    assert len(_early_acks_of_append(trace)) > 10


def _early_acks_of_writers(place: Path, *arguments: str) -> list[Acked]:
    """Commits over several logs that were told before the sync (or, for `interval`, before the write) of a part."""
    trace = place / "trace"
    fire = Fire(place, shim_environment(trace, acks="/history"), arguments)
    process = fire.start(place / "data")
    try:
        fire.wait_for_lines(process, 3000)
    finally:
        kill(process)
    calls = read_trace(trace)
    found = {(batch.log, batch.first): batch for batch in batches_of(calls)}
    told = [(event, call.begun) for call in calls if call.kind == ACK for event in decode_events(call.data)]
    begun = {event.id: event for event, _ in told if isinstance(event, Begun)}
    numbers = next(event.numbers for event, _ in told if isinstance(event, Opened))
    early: list[Acked] = []
    for event, when in told:
        if not isinstance(event, Acked) or begun[event.id].level is Durability.MEMORY:
            continue
        parts = zip(begun[event.id].parts, event.offsets, strict=True)
        batches = [found[numbers[log], first] for (log, _), first in parts]
        needs_sync = begun[event.id].level is Durability.COMMIT
        early += [event] if max(b.synced if needs_sync else b.written for b in batches) > when else []
    return early


def test_commits_over_many_logs_are_told_only_when_all_of_their_parts_are_safe(tmp_path: Path) -> None:
    assert _early_acks_of_writers(tmp_path) == []


def test_writers_that_tell_before_the_sync_are_found_out(tmp_path: Path) -> None:
    assert len(_early_acks_of_writers(tmp_path, "--lie")) > 10
