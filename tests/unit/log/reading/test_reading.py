from __future__ import annotations

import threading
from array import array
from pathlib import Path

import pytest
from tests.support.simdisk import SimDisk
from tests.support.small_shard import SmallShard, rows

from penstock.core.errors import LogDamaged, OffsetOutOfRange
from penstock.core.ports import Disk
from penstock.core.types import Durability, FilePosition
from penstock.log.batch import next_offset, select_rows
from penstock.log.disk import RealDisk
from penstock.log.partition import Log
from penstock.log.records import Edit, LogSettings, SegmentInfo
from penstock.log.segments.segments import segment_path


@pytest.fixture(params=["simulated", "real"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return SimDisk() if request.param == "simulated" else RealDisk(tmp_path)


@pytest.fixture
def shard(disk: Disk) -> SmallShard:
    return SmallShard(disk)


def value(offset: int) -> bytes:
    return b"value-%d-" % offset + b"x" * (offset % 50)


def fill(shard: SmallShard, log: Log, batches: int, *, per_batch: int = 3, settle_every: int = 4) -> None:
    for number in range(batches):
        shard.append(log, *(value(log.end + i) for i in range(per_batch)))
        shard.clock.advance(0.01)
        if number % settle_every == settle_every - 1:
            shard.settle()
    shard.commit()


def expected(start: int, stop: int) -> list[tuple[int, bytes]]:
    return [(offset, value(offset)) for offset in range(start, stop)]


def read_on(shard: SmallShard, log: Log, offset: int, max_bytes: int) -> list[tuple[int, bytes]]:
    """All there is, one answer after the other."""
    found: list[tuple[int, bytes]] = []
    while batches := shard.reader.read(log, offset, max_bytes):
        found += rows(batches)
        offset = next_offset(batches[-1])
    return found


@pytest.mark.parametrize("max_bytes", [1, 300, 5000, 1 << 20])
def test_every_record_is_read_once_whether_sealed_active_or_in_the_tail(shard: SmallShard, max_bytes: int) -> None:
    log = shard.create("a")
    fill(shard, log, 30)
    view = shard.engine.keeper.views[log.number]
    assert len(view.sealed) > 3
    assert view.active is not None
    assert log.tail
    assert read_on(shard, log, 0, max_bytes) == expected(0, 90)


def test_an_answer_begins_with_the_batch_that_holds_the_offset(shard: SmallShard) -> None:
    log = shard.create("a")
    fill(shard, log, 30)
    for offset in range(90):
        found = shard.values(log, offset, max_bytes=1)
        first = offset - offset % 3
        assert found == expected(first, first + 3)


def test_an_answer_keeps_within_its_bytes_unless_the_first_batch_is_larger(shard: SmallShard) -> None:
    log = shard.create("a")
    fill(shard, log, 30)
    for max_bytes in (1, 500, 900, 2000):
        answer = shard.reader.read(log, 0, max_bytes)
        assert len(answer) == 1 or sum(map(len, answer)) <= max_bytes
        following = shard.reader.read(log, next_offset(answer[-1]), 1)
        assert sum(map(len, answer)) + len(following[0]) > max_bytes


def test_at_the_end_there_is_nothing_and_beyond_it_is_an_error(shard: SmallShard) -> None:
    log = shard.create("a")
    assert shard.reader.read(log, 0, 100) == []
    fill(shard, log, 2)
    assert shard.reader.read(log, 6, 100) == []
    with pytest.raises(OffsetOutOfRange):
        shard.reader.read(log, 7, 100)


def test_nothing_is_read_before_it_is_committed(shard: SmallShard) -> None:
    log = shard.create("a")
    fill(shard, log, 5)
    shard.append(log, b"not yet")
    assert read_on(shard, log, 0, 1 << 20) == expected(0, 15)
    assert shard.reader.read(log, 15, 100) == []
    shard.commit()
    assert shard.values(log, 15) == [(15, b"not yet")]


def test_below_the_start_is_an_error_and_the_start_may_lie_inside_a_batch(shard: SmallShard) -> None:
    log = shard.create("a")
    fill(shard, log, 20)
    shard.edit(log, Edit(start=31))
    assert shard.values(log, 31, 1) == expected(30, 33)
    with pytest.raises(OffsetOutOfRange):
        shard.reader.read(log, 30, 100)


def test_a_gap_is_stepped_over(disk: Disk) -> None:
    shard = SmallShard(disk)
    log = shard.create("a", LogSettings(durability=Durability.INTERVAL, segment_bytes=600))
    fill(shard, log, 7)
    shard.settle()
    shard.abandon()
    again = SmallShard(disk, shard.clock)
    log = again.engine.log("a")
    assert log.end == 21 + (1 << 32)
    assert again.reader.read(log, 21, 100) == []
    fill(again, log, 5)
    again.settle()
    assert again.values(log, 21, 1) == expected(log.end - 15, log.end - 12)
    assert read_on(again, log, 0, 700) == expected(0, 21) + expected(log.end - 15, log.end)


def test_holes_that_compaction_left_are_stepped_over(shard: SmallShard) -> None:
    """Batches 0..2, a thinned 3..5 of which row 4 is left, nothing of 6..8."""
    log = shard.create("a", LogSettings(segment_bytes=400))
    fill(shard, log, 12)
    shard.settle()
    first = shard.engine.keeper.views[log.number].sealed[0]
    [batch] = shard.reader.read(log, 0, 1)
    thinned = select_rows(shard.reader.read(log, 3, 1)[0], array("i", [1]))
    second = shard.engine.keeper.views[log.number].sealed[-1].info
    merged = [s.info for s in shard.engine.keeper.views[log.number].sealed if s.info.end <= 9]
    assert merged[-1].end == 9
    assert second.end > 9
    directory = first.path.rpartition("/")[0]
    file = shard.disk.create(segment_path(directory, 0, 1))
    file.write(FilePosition(0), [batch, thinned])
    file.close()
    info = SegmentInfo(0, 1, 9, len(batch) + len(thinned), 4, merged[0].first_timestamp, merged[-1].max_timestamp)
    shard.edit(log, Edit(removed=tuple((s.base, s.version) for s in merged), added=(info,)))
    assert read_on(shard, log, 0, 300) == [*expected(0, 3), (4, value(4)), *expected(9, 36)]
    assert shard.values(log, 5, 1) == [(4, value(4))]
    for offset in (6, 7, 8):
        assert shard.values(log, offset, 1) == expected(9, 12)


def test_views_stay_good_when_their_segment_is_dropped_or_cut(shard: SmallShard) -> None:
    log = shard.create("a")
    fill(shard, log, 30)
    shard.settle()
    kept = shard.reader.read(log, 0, 1 << 20)
    shard.cut(log, 45)
    for _ in range(30):
        shard.append(log, b"new" * 20)
    shard.settle()
    assert shard.engine.keeper.write_checkpoint()
    shard.edit(log, Edit(start=60))
    assert shard.engine.keeper.write_checkpoint()
    assert rows(kept) == expected(0, 90)


@pytest.mark.parametrize("end", [0, 3, 45, 87])
def test_a_cut_takes_back_what_was_written_and_reading_goes_on(shard: SmallShard, end: int) -> None:
    log = shard.create("a")
    fill(shard, log, 30)
    shard.settle()
    shard.cut(log, end)
    assert read_on(shard, log, 0, 400) == expected(0, end)
    for i in range(10):
        shard.append(log, b"new-%d" % i)
    shard.commit()
    after = [(end + i, b"new-%d" % i) for i in range(10)]
    assert read_on(shard, log, 0, 400) == expected(0, end) + after
    shard.settle()
    assert read_on(shard, log, 0, 400) == expected(0, end) + after


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("end", [0, 3, 45, 87])
def test_a_cut_survives_a_kill(disk: Disk, end: int, checkpoint: bool) -> None:
    shard = SmallShard(disk)
    log = shard.create("a")
    fill(shard, log, 30)
    shard.settle()
    assert shard.engine.keeper.write_checkpoint()
    shard.cut(log, end)
    shard.append(log, b"new")
    shard.settle()
    if checkpoint:
        assert shard.engine.keeper.write_checkpoint()
    shard.abandon()
    again = SmallShard(disk, shard.clock)
    log = again.engine.log("a")
    assert log.fault is None
    assert read_on(again, log, 0, 400) == [*expected(0, end), (end, b"new")]
    assert again.engine.keeper.write_checkpoint()
    named = {path.rpartition("/")[2] for path in again.engine.keeper.logs[log.number].paths()}
    directory = again.engine.keeper.logs[log.number].directory
    assert {name for name in disk.list(directory) if name.endswith(".seg")} == named


def test_time_finds_the_first_record_that_is_not_older(shard: SmallShard) -> None:
    log = shard.create("a")
    begun = shard.clock.now_ms()
    fill(shard, log, 30)
    for batch in range(30):
        assert shard.reader.offset_at_time(log, begun + 10 * batch) == 3 * batch
        assert shard.reader.offset_at_time(log, begun + 10 * batch - 5) == 3 * batch
    assert shard.reader.offset_at_time(log, begun + 291) == 90
    assert shard.reader.offset_at_time(log, 0) == 0
    shard.edit(log, Edit(start=31))
    assert shard.reader.offset_at_time(log, 0) == 31


def test_a_scan_gives_every_batch_and_stops_where_it_is_told(shard: SmallShard) -> None:
    log = shard.create("a")
    fill(shard, log, 30)
    assert rows(list(shard.reader.batches(log, 0))) == expected(0, 90)
    assert rows(list(shard.reader.batches(log, 40, 46))) == expected(39, 48)


def test_damage_is_reported_with_file_and_position(disk: Disk) -> None:
    shard = SmallShard(disk)
    log = shard.create("a")
    fill(shard, log, 30)
    shard.settle()
    segment = shard.engine.keeper.views[log.number].sealed[1]
    file = disk.open(segment.path)
    file.write(FilePosition(100), [b"\xff"])
    file.close()
    with pytest.raises(LogDamaged) as caught:
        read_on(shard, log, 0, 1 << 20)
    assert (caught.value.file, caught.value.position) == (segment.path, 0)
    assert read_on(shard, log, segment.info.end, 1 << 20) == expected(segment.info.end, 90)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_what_an_answer_has_no_room_for_is_not_looked_at(
    disk: Disk, is_sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.log.reading.walk.MIN_WINDOW_BYTES", 1)  # as where each batch is larger
    shard = SmallShard(disk)
    log = shard.create("a", LogSettings(segment_bytes=25_000))
    for number in range(4 if is_sealed else 2):
        shard.append(log, b"%d" % number * 10_000)
        shard.settle()
    view = shard.engine.keeper.views[log.number]
    path = view.sealed[0].path if is_sealed else view.active.path if view.active is not None else ""
    assert bool(view.sealed) is is_sealed
    file = disk.open(path)
    file.write(FilePosition(15_000), [b"\xff"])
    file.close()
    assert shard.values(log, 0, max_bytes=1) == [(0, b"0" * 10_000)]
    with pytest.raises(LogDamaged):
        shard.reader.read(log, 1, 1)


def test_a_missing_file_is_damage(disk: Disk) -> None:
    shard = SmallShard(disk)
    log = shard.create("a")
    fill(shard, log, 30)
    shard.settle()
    disk.unlink(shard.engine.keeper.views[log.number].sealed[0].path)
    with pytest.raises(LogDamaged, match="missing"):
        shard.reader.read(log, 0, 100)


def test_a_reopened_segment_is_read_from_anywhere(disk: Disk) -> None:
    """Its index is filled from the opening on; what is before it is found too."""
    shard = SmallShard(disk)
    log = shard.create("a", LogSettings(segment_bytes=1 << 20))
    for i in range(200):
        shard.append(log, b"%04d" % i * 500)
        shard.settle()
    shard.close()
    again = SmallShard(disk, shard.clock)
    log = again.engine.log("a")
    for i in range(200, 250):
        again.append(log, b"%04d" % i * 500)
        again.settle()
    active = again.engine.keeper.views[log.number].active
    assert active is not None
    assert active.index.offsets[0] == 200
    for offset in (0, 5, 199, 120, 200, 249):
        assert again.values(log, offset, 1) == [(offset, b"%04d" % offset * 500)]
    learned = again.reader._learned[active.path].index
    assert list(learned.positions) == sorted(learned.positions)
    assert len(learned.positions) > 3


def test_maps_are_bounded(shard: SmallShard) -> None:
    log = shard.create("a")
    fill(shard, log, 60)
    read_on(shard, log, 0, 300)
    assert len(shard.reader.maps) == 4


def test_a_reader_beside_the_writer_sees_all_in_order_and_nothing_twice(tmp_path: Path) -> None:
    shard = SmallShard(RealDisk(tmp_path))
    log = shard.create("a")
    seen: list[tuple[int, bytes]] = []
    failures: list[BaseException] = []

    def follow() -> None:
        offset = 0
        try:
            while offset < 1500:
                batches = shard.reader.read(log, offset, 2000)
                seen.extend(rows(batches))
                offset = next_offset(batches[-1]) if batches else offset
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=follow)
    reader.start()
    fill(shard, log, 500, settle_every=5)
    reader.join()
    assert not failures
    assert seen == expected(0, 1500)
