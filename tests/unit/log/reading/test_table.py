from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.clock import FakeClock
from tests.support.small_shard import SmallShard

from penstock.log.disk import DirectoryLock, LockHolder, RealDisk
from penstock.log.reading.manifest import read_manifest
from penstock.log.reading.table import TableReader, TableWriter, holder_mark, publish_from, retire_table


@pytest.fixture
def shard(tmp_path: Path) -> SmallShard:
    return SmallShard(RealDisk(tmp_path), FakeClock())


def opened(shard: SmallShard) -> TableReader:
    table = TableReader.open(shard.disk)
    assert table is not None
    return table


def real(shard: SmallShard) -> RealDisk:
    assert isinstance(shard.disk, RealDisk)
    return shard.disk


def test_a_published_cut_is_read(shard: SmallShard) -> None:
    publish_from(real(shard), shard.engine.keeper)
    log = shard.create("a")
    for i in range(20):
        shard.append(log, b"%d" % i * 100)
    shard.settle()
    row = opened(shard).row(log.number)
    written = shard.engine.keeper.logs[log.number]
    assert row is not None
    assert written.active is not None
    assert (row.start, row.end, row.sealed_records + row.active_records) == (0, 20, 20)
    assert (row.active_base, row.active_bytes) == (written.active.base, written.active.written_bytes)
    manifest = read_manifest(shard.disk, written.directory)
    assert manifest is not None
    assert manifest.list_version == row.list_version
    assert manifest.sealed == tuple(segment.info for segment in written.sealed)
    assert len(manifest.sealed) == row.sealed_count


def test_a_table_that_grows_tells_those_who_have_the_old_one(shard: SmallShard) -> None:
    writer = TableWriter(real(shard), 7, capacity=2)
    writer.publish(shard.engine.keeper.logs.values())
    old = opened(shard)
    assert old.is_current
    logs = [shard.create(f"log-{i}") for i in range(10)]
    shard.settle()
    writer.publish(shard.engine.keeper.logs.values())
    assert not old.is_current
    rows = opened(shard).rows()
    assert rows is not None
    assert {row.number for row in rows} == {0, *(log.number for log in logs)}
    assert opened(shard).start_number == 7


def test_a_removed_log_leaves_the_others_in_place(shard: SmallShard) -> None:
    publish_from(real(shard), shard.engine.keeper)
    logs = [shard.create(f"log-{i}") for i in range(5)]
    for i, log in enumerate(logs):
        shard.append(log, *[b"x"] * (i + 1))
    shard.settle()
    table = opened(shard)
    assert table.row(logs[1].number) is not None
    assert table.row(logs[4].number) is not None
    shard.engine.stage_delete(logs[1], shard.done)
    shard.settle()
    assert table.row(logs[1].number) is None
    for i in (0, 2, 3, 4):
        row = table.row(logs[i].number)
        assert row is not None
        assert row.end == i + 1
    shard.engine.stage_delete(logs[3], shard.done)
    shard.settle()
    assert table.row(logs[3].number) is None


def test_an_opened_directory_has_no_table_of_an_earlier_life(shard: SmallShard) -> None:
    publish_from(real(shard), shard.engine.keeper)
    table = opened(shard)
    shard.abandon()
    retire_table(shard.disk)
    assert not table.is_current
    assert TableReader.open(shard.disk) is None
    retire_table(shard.disk)


def test_a_cut_stays_where_it_is_while_a_list_cannot_be_written(
    shard: SmallShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_from(real(shard), shard.engine.keeper)
    log, other = shard.create("a"), shard.create("b")
    shard.settle()

    def full(*_: object) -> None:
        raise OSError(28, "full")

    with monkeypatch.context() as broken:
        broken.setattr("penstock.log.reading.table.write_manifest", full)
        for i in range(20):
            shard.append(log, b"%d" % i * 100)
        shard.append(other, b"y")
        shard.settle()
        rows = opened(shard).rows()
        assert rows is not None
        assert [row.end for row in rows if row.number] == [0, 0]
    shard.append(other, b"y")
    shard.settle()
    rows = opened(shard).rows()
    assert rows is not None
    assert sorted(row.end for row in rows if row.number) == [2, 20]


def test_a_table_names_the_one_who_holds_the_directory(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path):
        shard = SmallShard(RealDisk(tmp_path), FakeClock())
        publish_from(real(shard), shard.engine.keeper)
        assert opened(shard).holder == holder_mark(DirectoryLock.holder(tmp_path)) != 0
        assert holder_mark(LockHolder(1, "a", "then")) != holder_mark(LockHolder(1, "a", "later"))


def test_what_is_not_a_table_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"")
    assert TableReader.open(RealDisk(tmp_path)) is None
    (tmp_path / "table").write_bytes(bytes(4096))
    assert TableReader.open(RealDisk(tmp_path)) is None
