from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clock import FakeClock
from tests.support.simdisk import SimDisk
from tests.support.small_shard import SmallShard

from penstock.core.types import FilePosition, LogNumber
from penstock.kernels.folded import INDEX_STEP_BYTES
from penstock.log.batch import encode, seal
from penstock.log.columns import Columns
from penstock.log.partition import Log
from penstock.log.records import Edit, LogSettings, SegmentInfo
from penstock.log.segments.index import (
    build_index,
    decode_index,
    encode_index,
    entries_below,
    index_path,
    load_index,
    position_before_offset,
    position_before_time,
)
from penstock.log.segments.segments import SealedSegment, SparseIndex

INFO = SegmentInfo(0, 0, 100, 5000, 100, 1, 9)


def sample() -> SparseIndex:
    index = SparseIndex()
    for offset, position, timestamp in [(0, 0, 0), (10, 1000, 5), (40, 3000, 7)]:
        index.add(offset, position, timestamp)
    return index


def test_an_index_is_read_back() -> None:
    assert decode_index(encode_index(INFO, sample()), INFO) == sample()


def test_an_index_of_other_bytes_is_not_taken() -> None:
    data = encode_index(INFO, sample())
    assert decode_index(data, SegmentInfo(0, 0, 100, 5008, 100, 1, 9)) is None
    assert decode_index(data, SegmentInfo(0, 0, 101, 5000, 100, 1, 9)) is None


def test_an_index_with_any_bit_wrong_or_cut_short_is_not_taken() -> None:
    data = encode_index(INFO, sample())
    for at in range(len(data)):
        assert decode_index(data[:at], INFO) is None
        assert decode_index(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], INFO) is None


def test_lookups_give_the_entry_before() -> None:
    index = sample()
    assert [position_before_offset(index, offset) for offset in (0, 9, 10, 39, 40, 99)] == [0, 0, 1, 1, 2, 2]
    assert [position_before_time(index, timestamp) for timestamp in (0, 1, 5, 6, 7, 8)] == [-1, 0, 0, 1, 1, 2]
    assert position_before_offset(SparseIndex(), 5) == -1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 30_000), min_size=1, max_size=20), st.integers(0, 25))
def test_a_segment_is_indexed_and_cut_by_its_batches(sizes: list[int], cut: int) -> None:
    batches = []
    for offset, size in enumerate(sizes):
        batches.append(encode(Columns.of([b"x" * size])))
        seal(batches[-1], offset, 0, 100 + offset)
    data = memoryview(b"".join(batches))
    index = build_index(data)
    starts = [sum(map(len, batches[:i])) for i in range(len(batches))]
    assert all(position == starts[offset] for offset, position in zip(index.offsets, index.positions, strict=True))
    gaps = zip(index.positions, [*index.positions[1:], len(data)], strict=True)
    assert all(stop - start <= INDEX_STEP_BYTES + max(map(len, batches)) for start, stop in gaps)
    entries = list(entries_below(LogNumber(1), data, cut))
    assert [bytes(entry.data) for entry in entries] == [bytes(batch) for batch in batches[:cut]]
    assert [entry.end for entry in entries] == [*range(1, len(entries)), cut][: len(entries)]


def sealed_shard() -> tuple[SmallShard, Log, SealedSegment]:
    """A shard with one full segment of several index entries."""
    shard = SmallShard(SimDisk(), FakeClock())
    log = shard.create("a", LogSettings(segment_bytes=300_000))
    for i in range(20):
        shard.append(log, b"%02d" % i * 10_000)
        shard.settle()
    return shard, log, shard.engine.keeper.views[log.number].sealed[0]


def test_a_sealed_segment_has_its_index_beside_it() -> None:
    shard, _, segment = sealed_shard()
    index = load_index(shard.disk, segment.path, segment.info)
    assert index is not None
    assert len(index.positions) > 3


@pytest.mark.parametrize("damage", ["absent", "cut short", "wrong"])
def test_an_index_that_is_no_good_is_rebuilt_from_its_segment(damage: str) -> None:
    shard, log, segment = sealed_shard()
    path = index_path(segment.path)
    right = load_index(shard.disk, segment.path, segment.info)
    assert right is not None
    if damage == "absent":
        shard.disk.unlink(path)
    elif damage == "cut short":
        shard.disk.open(path).truncate(50)
    else:
        right.positions[2] += 8
        file = shard.disk.create(path)
        file.write(FilePosition(0), [encode_index(segment.info, right)])
        file.close()
    for offset in range(14):
        assert shard.values(log, offset, 1) == [(offset, b"%02d" % offset * 10_000)]


def test_an_index_goes_with_its_segment() -> None:
    shard, log, segment = sealed_shard()
    shard.edit(log, Edit(start=segment.info.end))
    assert not shard.disk.exists(segment.path)
    assert not shard.disk.exists(index_path(segment.path))


def test_indexes_without_a_segment_are_removed_when_a_crashed_directory_is_opened() -> None:
    shard, _, segment = sealed_shard()
    stray = segment.path.replace("0.seg", "7.idx")
    shard.disk.create(stray).close()
    shard.abandon()
    SmallShard(shard.disk, shard.clock)
    assert not shard.disk.exists(stray)
    assert shard.disk.exists(index_path(segment.path))


def test_a_full_disk_costs_the_index_and_nothing_else() -> None:
    disk = SimDisk()
    shard = SmallShard(disk, FakeClock())
    log = shard.create("a")
    disk.fail("create", ".idx", OSError(28, "full"), times=100)
    for i in range(20):
        shard.append(log, b"%d" % i * 50)
    shard.settle()
    assert len(shard.engine.keeper.views[log.number].sealed) > 2
    assert [offset for offset, _ in shard.values(log)] == list(range(20))
