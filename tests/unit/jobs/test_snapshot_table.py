"""A snapshot has the last row of every key, wherever keys moved to and whatever stopped the run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from tests.support.broker import stage
from tests.support.live_tables import LiveTables
from tests.support.loop import run

from penstock.core.errors import InvalidArgument
from penstock.jobs import snapshot as snapshot_module
from penstock.jobs.local import InProcesses, InThisProcess
from penstock.jobs.snapshot import SnapshotReport, SnapshotRequest, plan_snapshot, snapshot
from penstock.jobs.snapshot_write import SnapshotPiece, WrittenPart, write_part
from penstock.log.columns import Columns


def table_of(place: Path) -> dict[bytes, bytes]:
    """Key and value, as a reader finds them; AssertionError if a key is there twice."""
    table = ds.dataset(place, format="parquet").to_table(columns=["key", "value"])
    pairs = list(zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True))
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


class Keyed:
    """A queue written by keys, and what its last values are."""

    def __init__(self, place: Path, partitions: int = 3) -> None:
        (place / "data").mkdir(parents=True)
        self.live = LiveTables(place / "data")
        self.logs = [self.live.create("devices", number) for number in range(partitions)]
        self.request = SnapshotRequest(place / "data", "devices", place / "table")
        self.last: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes, partition: int | None = None) -> None:
        columns = Columns.of([value], keys=[key])
        number = columns.partitions(len(self.logs))[0] if partition is None else partition
        self.live.append(self.logs[number], columns)
        self.last[key] = value

    def fill(self, seed: int, rows: int, keys: int = 20) -> None:
        """A few in each commit."""
        draw = random.Random(seed)
        for first in range(0, rows, 5):
            values = [b"" if draw.random() < 0.2 else b"%d" % number for number in range(first, first + 5)]
            chosen = [b"k%d" % draw.randrange(keys) for _ in values]
            for number, columns in Columns.of(values, keys=chosen).scatter(len(self.logs)):
                self.live.append(self.logs[number], columns)
            self.last |= dict(zip(chosen, values, strict=True))

    def grow(self, partitions: int) -> None:
        self.logs += [self.live.create("devices", number) for number in range(len(self.logs), partitions)]

    def snapshot(self) -> SnapshotReport:
        return snapshot(self.request, InThisProcess())

    @property
    def expected(self) -> dict[bytes, bytes]:
        return {key: value for key, value in self.last.items() if value}

    @property
    def table(self) -> dict[bytes, bytes]:
        return table_of(self.request.target)


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Keyed]:
    made = Keyed(tmp_path)
    yield made
    made.live.close()


def test_the_last_value_of_each_key_is_in_the_table(keyed: Keyed) -> None:
    keyed.fill(1, 100)
    report = keyed.snapshot()
    assert keyed.table == keyed.expected
    assert (report.rows, report.moved_keys, report.unkeyed) == (len(keyed.expected), 0, 0)
    assert json.loads((keyed.request.target / snapshot_module.NAME).read_bytes())["rows"] == report.rows


def test_a_tombstone_takes_its_key_out(keyed: Keyed) -> None:
    keyed.put(b"a", b"1")
    keyed.put(b"b", b"1")
    keyed.put(b"a", b"")
    keyed.snapshot()
    assert keyed.table == {b"b": b"1"}


def test_the_next_snapshot_takes_the_place_of_the_last(keyed: Keyed) -> None:
    keyed.fill(1, 60)
    keyed.snapshot()
    keyed.fill(2, 60)
    keyed.snapshot()
    assert keyed.table == keyed.expected


@pytest.mark.parametrize("seed", range(3))
def test_keys_that_moved_are_there_once_with_their_youngest_value(keyed: Keyed, seed: int) -> None:
    """A tombstone in the new partition takes out what the old one has, too."""
    keyed.fill(seed, 60)
    for partitions in (4, 6, 11):
        keyed.grow(partitions)
        keyed.fill(seed + partitions, 20)
        keyed.snapshot()
        assert keyed.table == keyed.expected


def test_a_key_that_was_put_into_several_partitions_is_there_once(keyed: Keyed) -> None:
    for number in range(12):
        keyed.put(b"a", b"%d" % number, partition=number % 3)
    assert keyed.snapshot().moved_keys == 2
    assert keyed.table == {b"a": b"11"}


def test_of_one_millisecond_the_row_in_the_key_s_own_partition_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "data") as s:
            queue = await s.queue(partitions=1)
            keys = [b"k%d" % number for number in range(20)]
            await s.put(queue, *[b"old"] * 20, keys=keys)
            await s.broker.declaring.change(queue, {"partitions": 5})
            await s.put(queue, *[b"new"] * 20, keys=keys)

    run(main())
    snapshot(SnapshotRequest(tmp_path / "data", "q", tmp_path / "table"), InThisProcess())
    assert set(table_of(tmp_path / "table").values()) == {b"new"}


def test_rows_without_a_key_are_counted_and_left_out(keyed: Keyed) -> None:
    keyed.put(b"a", b"1")
    keyed.live.fill(keyed.logs[0], 2)
    assert keyed.snapshot().unkeyed == 6
    assert keyed.table == {b"a": b"1"}


def test_a_run_that_was_stopped_goes_on_with_the_same_rows(keyed: Keyed, monkeypatch: pytest.MonkeyPatch) -> None:
    keyed.fill(1, 60)
    expected = keyed.expected
    done: list[int] = []

    def failing(piece: SnapshotPiece) -> WrittenPart:
        if len(done) == 2:
            raise OSError("no room")
        done.append(piece.source.partition)
        return write_part(piece)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="no room"):
        patch.setattr(snapshot_module, "write_part", failing)
        keyed.snapshot()
    assert not list(keyed.request.target.glob("part-*"))
    keyed.fill(2, 10)
    done.clear()
    with monkeypatch.context() as patch:
        patch.setattr(snapshot_module, "write_part", failing)
        keyed.snapshot()
    assert done == [2], "the others were finished"
    assert keyed.table == expected
    keyed.snapshot()
    assert keyed.table == keyed.expected


def test_a_run_that_was_stopped_while_parts_were_shown_begins_anew(
    keyed: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed.fill(1, 60)
    with monkeypatch.context() as patch:
        patch.setattr(snapshot_module, "sync_directory", lambda path: (_ for _ in ()).throw(OSError("dead")))
        with pytest.raises(OSError, match="dead"):
            keyed.snapshot()
    keyed.snapshot()
    assert keyed.table == keyed.expected


def test_processes_make_the_same_table(keyed: Keyed) -> None:
    keyed.fill(1, 60)
    snapshot(keyed.request, InProcesses(2))
    assert keyed.table == keyed.expected


def test_an_empty_queue_gives_an_empty_table(keyed: Keyed) -> None:
    assert keyed.snapshot().rows == 0


def test_a_plan_changes_nothing_and_other_things_are_not_written_over(keyed: Keyed) -> None:
    keyed.fill(1, 10)
    assert plan_snapshot(keyed.request).rows == 10
    assert not keyed.request.target.exists()
    keyed.request.target.mkdir()
    (keyed.request.target / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidArgument, match="something else"):
        keyed.snapshot()
