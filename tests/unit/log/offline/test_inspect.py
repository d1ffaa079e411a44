from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.support.clock import FakeClock
from tests.support.small_shard import SmallShard, rows

from penstock.core.errors import OffsetOutOfRange
from penstock.core.types import Durability
from penstock.log.disk import DirectoryLock, RealDisk
from penstock.log.offline.inspect import FoldedDirectory, LiveDirectory, inspect_directory
from penstock.log.offline.verify import verify
from penstock.log.partition import Log
from penstock.log.reading.cuts import DirectoryState
from penstock.log.reading.table import publish_from
from penstock.log.records import Edit, LogSettings


def fill(shard: SmallShard, log: Log, batches: int) -> None:
    for _ in range(batches):
        shard.append(log, *(b"%d" % (log.end + i) * 20 for i in range(3)))
        shard.clock.advance(0.01)


def expected(start: int, stop: int) -> list[tuple[int, bytes]]:
    return [(offset, b"%d" % offset * 20) for offset in range(start, stop)]


def contents(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def shard(tmp_path: Path) -> SmallShard:
    return SmallShard(RealDisk(tmp_path), FakeClock())


def crashed(shard: SmallShard, root: Path) -> FoldedDirectory:
    shard.abandon()
    directory = inspect_directory(root)
    assert isinstance(directory, FoldedDirectory)
    assert directory.state is DirectoryState.CRASHED
    return directory


def test_a_crashed_directory_shows_what_the_journal_holds_and_stays_as_it_was(
    shard: SmallShard, tmp_path: Path
) -> None:
    log = shard.create("a")
    fill(shard, log, 20)
    shard.settle()
    assert shard.engine.keeper.write_checkpoint()
    fill(shard, log, 20)
    shard.commit()
    before = contents(tmp_path)
    directory = crashed(shard, tmp_path)
    [found] = directory.logs()
    assert (found.name, found.start, found.end, found.records, found.pending) == ("a", 0, 120, 120, 20)
    assert rows(list(directory.batches(found.number, 0))) == expected(0, 120)
    assert rows(list(directory.batches(found.number, 59, 64))) == expected(57, 66)
    assert directory.offset_at_time(found.number, 1_700_000_000_000 + 250) == 75
    assert directory.offset_at_time(found.number, 1_700_000_000_000 + 50) == 15
    assert directory.offset_at_time(found.number, 1_800_000_000_000) == 120
    assert (directory.journal.frames, directory.journal.problems) == (20, [])
    assert verify(tmp_path).findings == []
    assert contents(tmp_path) == before


def test_edits_in_the_journal_are_folded_too(shard: SmallShard, tmp_path: Path) -> None:
    log, gone = shard.create("a"), shard.create("b")
    fill(shard, log, 40)
    fill(shard, gone, 40)
    shard.settle()
    assert shard.engine.keeper.write_checkpoint()
    shard.engine.stage_truncate(log, 60, 60, None, shard.done)
    fill(shard, log, 10)
    shard.engine.stage_edit(log, Edit(start=30), shard.done)
    shard.engine.stage_delete(gone, shard.done)
    shard.commit()
    directory = crashed(shard, tmp_path)
    [found] = directory.logs()
    assert (found.start, found.end) == (30, 90)
    assert rows(list(directory.batches(found.number, 30))) == expected(30, 90)
    with pytest.raises(OffsetOutOfRange):
        list(directory.batches(found.number, 29))
    assert verify(tmp_path).findings == []


def test_a_torn_end_of_the_journal_is_reported_and_is_no_damage(shard: SmallShard, tmp_path: Path) -> None:
    log = shard.create("a", LogSettings(durability=Durability.MEMORY))
    shard.commit()
    fill(shard, log, 1)
    shard.engine.commit.step()
    fill(shard, log, 1)
    shard.engine.commit.step()
    path = tmp_path / "journal" / "0000"
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PSTF", 0, data.rindex(b"PSTF"))
    data[at + 60] ^= 1
    path.write_bytes(data)
    directory = crashed(shard, tmp_path)
    assert directory.journal.torn_bytes > 0
    assert directory.journal.problems == []
    assert verify(tmp_path).torn_bytes == directory.journal.torn_bytes


def test_damage_of_the_journal_is_a_finding(shard: SmallShard, tmp_path: Path) -> None:
    log = shard.create("a")
    for _ in range(5):
        fill(shard, log, 1)
        shard.commit()
    path = tmp_path / "journal" / "0000"
    data = bytearray(path.read_bytes())
    data[data.index(b"PSTF", 4200) + 70] ^= 1
    path.write_bytes(data)
    directory = crashed(shard, tmp_path)
    assert "journal/0000" in directory.journal.problems[0]
    [finding] = verify(tmp_path).findings
    assert finding.file == "journal"


def test_a_live_directory_is_looked_at_through_its_table(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path):
        shard = SmallShard(RealDisk(tmp_path), FakeClock())
        publish_from(RealDisk(tmp_path), shard.engine.keeper)
        log = shard.create("a")
        fill(shard, log, 20)
        shard.settle()
        directory = inspect_directory(tmp_path)
        assert isinstance(directory, LiveDirectory)
        [found] = directory.logs()
        assert (found.start, found.end, found.records) == (0, 60, 60)
        assert len(found.segments) > 3
        assert rows(list(directory.batches(log.number, 0))) == expected(0, 60)
        report = verify(tmp_path)
        assert (report.state, report.records, report.findings) == (DirectoryState.LIVE, 60, [])


def test_a_good_directory_has_no_findings(shard: SmallShard, tmp_path: Path) -> None:
    log = shard.create("a")
    fill(shard, log, 40)
    shard.close()
    told: dict[str, int] = {}
    report = verify(tmp_path, lambda name, size: told.update({name: told.get(name, 0) + size}))
    assert report.findings == []
    assert (report.state, report.logs, report.batches, report.records) == (DirectoryState.CLOSED, 2, 41, 121)
    assert sum(told.values()) == report.bytes


@pytest.mark.parametrize("position", [3, 10, 17, 21, 45, 63, 70, 150])
def test_damage_is_found_with_file_and_position(shard: SmallShard, tmp_path: Path, position: int) -> None:
    log = shard.create("a")
    fill(shard, log, 40)
    shard.close()
    path = sorted(tmp_path.glob("logs/a@1/*.seg"))[2]
    data = bytearray(path.read_bytes())
    second = data.index(b"PSTB", 4)
    data[second + position] ^= 4
    path.write_bytes(data)
    findings = verify(tmp_path).findings
    assert findings
    assert {(finding.log, Path(finding.file).name) for finding in findings} == {("a", path.name)}
    assert findings[0].position == second


def test_a_missing_segment_is_damage_and_a_wrong_index_is_not(shard: SmallShard, tmp_path: Path) -> None:
    log = shard.create("a")
    fill(shard, log, 40)
    shard.close()
    segments = sorted(tmp_path.glob("logs/a@1/*.seg"))
    segments[2].unlink()
    segments[3].with_suffix(".idx").write_bytes(b"nonsense")
    report = verify(tmp_path)
    assert [(Path(found.file).name, found.reason) for found in report.findings] == [
        (segments[2].name, "the file is missing")
    ]
    assert [Path(path).name for path in report.bad_indexes] == [segments[3].with_suffix(".idx").name]


def test_gaps_after_a_crash_are_no_damage(tmp_path: Path) -> None:
    shard = SmallShard(RealDisk(tmp_path), FakeClock())
    log = shard.create("a", LogSettings(durability=Durability.INTERVAL, segment_bytes=600))
    fill(shard, log, 10)
    shard.settle()
    shard.abandon()
    again = SmallShard(RealDisk(tmp_path), shard.clock)
    fill(again, again.engine.log("a"), 10)
    again.close()
    assert verify(tmp_path).findings == []
