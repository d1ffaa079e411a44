"""An archive has every row once, whatever stopped the runs that made it, and every reader of Parquet reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.support.live_tables import LiveTables

from penstock.core.errors import InvalidArgument
from penstock.jobs import archive_write, files
from penstock.jobs.archive import ArchiveReport, ArchiveRequest, Lost, archive, plan_archive
from penstock.jobs.archive_manifest import Range, merged, missing, read_manifest
from penstock.jobs.files import exclusive
from penstock.jobs.local import InProcesses, InThisProcess
from penstock.jobs.ranges import TimeSpan
from penstock.log.columns import Columns
from penstock.log.partition import Log

DAY_S = 86_400.0


class Killed(BaseException):
    """As by kill -9: nothing is tidied up."""


class Queue:
    """A queue of two partitions that is being written to, and its archive."""

    def __init__(self, place: Path) -> None:
        (place / "data").mkdir(parents=True)
        self.live = LiveTables(place / "data")
        self.logs = [self.live.create("orders", number) for number in range(2)]
        self.request = ArchiveRequest(place / "data", ["orders"], place / "archive", split_rows=12)

    def put(self, rows: int = 10, log: int = 0) -> None:
        for _ in range(rows // 2):
            self.live.append(self.logs[log], _row(self.logs[log], 2))

    def archive(self) -> ArchiveReport:
        return archive(self.request, InThisProcess())

    @property
    def written(self) -> list[tuple[int, int]]:
        return [(number, offset) for number, log in enumerate(self.logs) for offset in range(log.start, log.end)]

    @property
    def archived(self) -> list[tuple[int, int]]:
        return rows_of(self.request.archive)


def _row(log: Log, count: int) -> Columns:
    values = [b"%d" % offset * 20 for offset in range(log.end, log.end + count)]
    return Columns.of(values, keys=[b"k%d" % (log.end % 3)] * count)


def files_of(place: Path) -> list[Path]:
    """Those of the manifest."""
    manifest = read_manifest(place)
    assert manifest is not None
    return [place / file.path for file in manifest.files]


def rows_of(place: Path) -> list[tuple[int, int]]:
    """Partition and offset of every row, as a reader finds them that knows nothing of manifests."""
    table = ds.dataset(place, format="parquet", partitioning="hive").to_table(columns=["partition", "offset"])
    return sorted(zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True))


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    made = Queue(tmp_path)
    made.put(20)
    made.put(6, log=1)
    yield made
    made.live.close()


def test_every_row_is_archived_once_by_queue_day_and_partition(queue: Queue) -> None:
    queue.live.clock.advance(DAY_S)
    queue.put(4)
    report = queue.archive()
    assert (report.rows, report.total_rows) == (30, 30)
    assert queue.archived == queue.written
    folders = {str(path.parent.relative_to(queue.request.archive)) for path in files_of(queue.request.archive)}
    assert {folder.split("/")[0] for folder in folders} == {"queue=orders"}
    assert len(folders) == 3, "two days of one partition, one of the other"


def test_rows_come_back_as_they_were(queue: Queue) -> None:
    queue.archive()
    table = ds.dataset(queue.request.archive, format="parquet", partitioning="hive").to_table()
    rows = {(row["partition"], row["offset"]): row for row in table.to_pylist()}
    assert rows[0, 7]["value"] == b"7" * 20
    assert rows[0, 7]["key"] == b"k0"
    assert rows[1, 0]["queue"] == "orders"
    assert rows[1, 0]["topic"] == "$queue/orders"


def test_the_next_run_goes_on_where_the_last_one_ended(queue: Queue) -> None:
    queue.archive()
    assert queue.archive().files == 0
    queue.put(4, log=1)
    assert queue.archive().rows == 4
    assert queue.archived == queue.written


def test_a_manifest_tells_offsets_rows_and_checksums(queue: Queue) -> None:
    queue.archive()
    manifest = read_manifest(queue.request.archive)
    assert manifest is not None
    assert [(each.partition, each.covered) for each in manifest.partitions] == [(0, ((0, 20),)), (1, ((0, 6),))]
    for file in manifest.files:
        data = (queue.request.archive / file.path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file.size_bytes, file.sha256)


def test_a_run_that_is_killed_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    """Before and after every sync of a file or directory, which is where it could matter."""
    step, is_done = 0, False
    while not is_done:
        made = Queue(tmp_path / str(step))
        made.put(20)
        made.archive()
        made.put(8)
        made.put(6, log=1)
        is_done = _killed_at(made, step)
        assert len(set(made.archived)) == len(made.archived), "not even then a row is there twice"
        made.put(4)
        made.archive()
        assert made.archived == made.written, step
        assert sorted(files_of(made.request.archive)) == sorted(made.request.archive.glob("queue=*/**/*.parquet"))
        assert not [path for path in made.request.archive.glob("**/*") if files.is_unfinished(path)]
        made.live.close()
        step += 1
    assert step > 10


def _killed_at(made: Queue, step: int) -> bool:
    """False if it was killed there, True if it came to its end before."""
    calls = 0
    sync, unlink = files._sync, Path.unlink

    def dying(path: Path, flags: int) -> None:
        nonlocal calls
        calls += 1
        if calls == step // 2 + 1 and step % 2 == 0:
            raise Killed
        sync(path, flags)
        if calls == step // 2 + 1:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_sync", dying)
        patch.setattr(Path, "unlink", lambda path, missing_ok=False: None if calls else unlink(path, missing_ok))
        try:
            made.archive()
        except Killed:
            return False
    return True


def test_rows_that_were_trimmed_before_they_were_archived_are_told_once(queue: Queue) -> None:
    queue.archive()
    queue.put(20)
    queue.live.trim(queue.logs[0], 31)
    report = queue.archive()
    assert report.lost == (Lost("orders", 0, 20, 31),)
    assert queue.archive().lost == ()
    assert [offset for partition, offset in queue.archived if partition == 0] == [*range(20), *range(31, 40)]


def test_rows_that_are_trimmed_while_they_are_read_are_told(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    write = archive_write.write_piece

    def late(piece: archive_write.ArchivePiece) -> archive_write.WrittenPiece:
        if piece.source.partition == 0 and piece.source.start == 0:
            queue.live.trim(queue.logs[0], 3)
        return write(piece)

    monkeypatch.setattr("penstock.jobs.archive.write_piece", late)
    assert queue.archive().lost == (Lost("orders", 0, 0, 3),)
    assert (0, 2) not in queue.archived


def test_a_span_of_time_is_archived_and_the_rest_later(queue: Queue) -> None:
    noon = queue.live.clock.now_ms()
    queue.live.clock.advance(1)
    queue.put(10)
    request = queue.request
    late = ArchiveRequest(request.directory, ["orders"], request.archive, span=TimeSpan(since_ms=noon + 500))
    assert archive(late, InThisProcess()).rows == 10
    early = ArchiveRequest(request.directory, ["orders"], request.archive, span=TimeSpan(until_ms=noon + 500))
    assert archive(early, InThisProcess()).rows == 26
    assert queue.archive().rows == 0
    assert queue.archived == queue.written


def test_processes_make_the_same_archive(queue: Queue) -> None:
    report = archive(queue.request, InProcesses(2))
    assert report.rows == 26
    assert queue.archived == queue.written


def test_duckdb_reads_an_archive_as_one_table(queue: Queue) -> None:
    duckdb = pytest.importorskip("duckdb")
    queue.archive()
    source = f"read_parquet('{queue.request.archive}/**/*.parquet', hive_partitioning = true)"
    question = f'select queue, partition, count(*), max("offset") from {source} group by all order by 2'
    assert duckdb.sql(question).fetchall() == [("orders", 0, 20, 19), ("orders", 1, 6, 5)]


def test_a_queue_with_an_odd_name_comes_back_under_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    live = LiveTables(tmp_path / "data")
    name = "$dlq/größe = 1%"
    live.fill(live.create(name), 2)
    archive(ArchiveRequest(tmp_path / "data", [name], tmp_path / "archive"), InThisProcess())
    table = ds.dataset(tmp_path / "archive", format="parquet", partitioning="hive").to_table()
    assert set(table.column("queue").to_pylist()) == {name}
    live.close()


def test_a_plan_changes_nothing(queue: Queue) -> None:
    plan = plan_archive(queue.request)
    assert (plan.rows >= 26, plan.size_bytes > 0) == (True, True)
    assert not queue.request.archive.exists()


def test_an_archive_of_another_directory_is_refused(queue: Queue, tmp_path: Path) -> None:
    queue.archive()
    other = Queue(tmp_path / "other")
    mixed = ArchiveRequest(other.request.directory, ["orders"], queue.request.archive)
    with pytest.raises(InvalidArgument, match="is the archive of"):
        archive(mixed, InThisProcess())


def test_a_compression_that_is_not_there_is_refused(queue: Queue) -> None:
    with pytest.raises(InvalidArgument, match="there are zstd"):
        plan_archive(ArchiveRequest(queue.request.directory, ["orders"], queue.request.archive, compression="zip"))


def test_two_jobs_do_not_write_to_one_archive(queue: Queue) -> None:
    with exclusive(queue.request.archive), pytest.raises(InvalidArgument, match="another job"):
        queue.archive()


@pytest.mark.parametrize("compression", ["snappy", "none"])
def test_other_compressions_are_written(queue: Queue, compression: str) -> None:
    request = ArchiveRequest(queue.request.directory, ["orders"], queue.request.archive, compression=compression)
    archive(request, InThisProcess())
    [path, *_] = files_of(request.archive)
    column = pa.parquet.read_metadata(path).row_group(0).column(0)
    assert column.compression == {"snappy": "SNAPPY", "none": "UNCOMPRESSED"}[compression]


def test_ranges_are_merged_and_what_is_missing_is_found() -> None:
    covered = merged([Range(5, 9), Range(0, 3), Range(3, 4), Range(7, 12), Range(2, 2)])
    assert covered == ((0, 4), (5, 12))
    assert missing(Range(0, 20), covered) == [(4, 5), (12, 20)]
    assert missing(Range(6, 11), covered) == []
    assert missing(Range(2, 5), covered) == [(4, 5)]
