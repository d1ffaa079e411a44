from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise

import msgspec
import pytest
from tests.support.clock import FakeClock
from tests.support.compacting import EAGER, OpenShard, view_records
from tests.support.simdisk import SimDisk

from penstock.core.errors import LogDamaged
from penstock.core.types import Compression, FilePosition
from penstock.kernels.folded import INDEX_STEP_BYTES
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.segments.index import build_index, load_index
from penstock.log.upkeep.compaction import Cleaned, Plan, execute, plan_compaction

SETTINGS = LogSettings(segment_bytes=400, compaction=EAGER)


def opened(settings: LogSettings = SETTINGS) -> tuple[OpenShard, Log]:
    shard = OpenShard(SimDisk(), FakeClock())
    return shard, shard.create("a", settings)


def user_property(name: bytes, value: bytes) -> bytes:
    return b"\x26" + len(name).to_bytes(2, "big") + name + len(value).to_bytes(2, "big") + value


def planned(
    shard: OpenShard, log: Log, *, cleaned: Cleaned | None = None, stable_end: int | None = None
) -> Plan | None:
    sealed = frozenset(shard.engine.keeper.checkpointed_state(log.number).sealed)
    now_ms = shard.clock.now_ms()
    return plan_compaction(
        log.name, shard.view(log), sealed, log.settings, now_ms, cleaned=cleaned, stable_end=stable_end
    )


def test_the_last_record_of_each_key_stays_with_its_offset_and_in_order() -> None:
    shard, log = opened()
    for i in range(12):
        shard.append(log, (b"k%d" % (i % 3), b"v%d" % i))
    shard.seal(log)
    shard.compact()
    assert shard.pairs(log) == [(9, b"k0", b"v9"), (10, b"k1", b"v10"), (11, b"k2", b"v11")]
    assert (log.start, log.end) == (0, 12)


def test_offset_0_stays_if_it_is_the_last_of_its_key() -> None:
    shard, log = opened()
    shard.append(log, (b"first", b"v"))
    shard.append(log, (b"k", b"1"), (b"k", b"2"))
    shard.seal(log)
    shard.compact()
    assert shard.pairs(log) == [(0, b"first", b"v"), (2, b"k", b"2")]


def test_records_without_a_key_stay() -> None:
    shard, log = opened()
    shard.append(log, (b"", b"1"), (b"k", b"2"), (b"", b""), (b"k", b"3"))
    shard.seal(log)
    shard.compact()
    assert shard.pairs(log) == [(0, None, b"1"), (2, None, b""), (3, b"k", b"3")]


def test_by_property_the_key_is_that_property_and_records_without_it_stay() -> None:
    shard, log = opened(LogSettings(compaction=msgspec.structs.replace(EAGER, property="id")))
    properties = [user_property(b"id", b"7"), user_property(b"other", b"7"), b"", user_property(b"id", b"7")]
    shard.append(log, *[(b"k", b"%d" % i) for i in range(4)], properties=properties)
    shard.seal(log)
    shard.compact()
    assert [row.offset for row in shard.records(log)] == [1, 2, 3]


def test_long_keys_that_differ_only_at_their_end_are_different_keys() -> None:
    shard, log = opened()
    long = b"x" * 200
    shard.append(log, (long + b"1", b"a"), (long + b"2", b"b"), (long + b"1", b"c"))
    shard.seal(log)
    shard.compact()
    assert [row.offset for row in shard.records(log)] == [1, 2]


def test_a_record_supersedes_what_is_before_it_once_it_is_older_than_the_lag() -> None:
    """Before that somebody may read up to an end in front of it, and would find nothing of its key."""
    shard, log = opened(LogSettings(segment_age_s=10.0, compaction=msgspec.structs.replace(EAGER, lag_s=100.0)))
    shard.append(log, (b"k", b"old"), (b"only", b"old"))
    shard.seal(log)
    shard.clock.advance(200)
    shard.append(log, (b"k", b"young"), (b"k", b"younger"))
    shard.seal(log)
    shard.compact()
    assert [row.offset for row in shard.records(log)] == [0, 1, 2, 3]
    shard.clock.advance(200)
    shard.compact()
    assert [row.offset for row in shard.records(log)] == [1, 3]


def test_the_active_segment_supersedes_nothing() -> None:
    shard, log = opened()
    shard.append(log, (b"k", b"1"))
    shard.seal(log)
    shard.append(log, (b"k", b"2"))
    shard.compact()
    assert [row.value for row in shard.records(log)] == [b"1", b"2"]


def test_a_tombstone_goes_when_it_is_old_and_nothing_older_of_its_key_is_left() -> None:
    shard, log = opened(LogSettings(compaction=msgspec.structs.replace(EAGER, tombstone_s=5000.0)))
    shard.append(log, (b"k", b"1"), (b"k", b""), (b"other", b"2"))
    shard.seal(log)
    shard.compact()
    assert [row.offset for row in shard.records(log)] == [1, 2]
    shard.clock.advance(5000)
    shard.compact()
    assert [row.offset for row in shard.records(log)] == [2]


def test_an_old_tombstone_outlives_the_pass_that_removes_what_it_covers() -> None:
    shard, log = opened()
    shard.append(log, (b"k", b"1"), (b"k", b""), (b"other", b"2"))
    shard.seal(log)
    shard.compact()
    assert [row.offset for row in shard.records(log)] == [1, 2]
    shard.compact()
    assert [row.offset for row in shard.records(log)] == [2]


def test_a_log_of_which_nothing_survives_has_no_segments_and_goes_on_at_its_end() -> None:
    shard, log = opened()
    shard.append(log, (b"k", b""))
    shard.seal(log)
    shard.compact()
    assert shard.view(log).sealed == ()
    shard.append(log, (b"k", b"again"))
    again = OpenShard(shard.disk.crash(random.Random(1)), shard.clock)
    assert again.pairs(again.log("a")) == [(1, b"k", b"again")]


def test_neighbours_that_fit_together_become_one_segment_under_the_first_base() -> None:
    shard, log = opened()
    for i in range(20):
        shard.append(log, (b"k" if i % 5 else b"u%d" % i, bytes(60)))
    shard.seal(log)
    assert len(shard.view(log).sealed) > 5
    shard.compact()
    after = [segment.info for segment in shard.view(log).sealed]
    assert [row.offset for row in shard.records(log)] == [0, 5, 10, 15, 19]
    assert all(info.bytes <= 400 for info in after)
    assert all(one.bytes + two.bytes > 400 for one, two in pairwise(after))
    assert (after[0].base, after[0].version, after[-1].end) == (0, 1, 20)


def test_segments_that_lose_nothing_and_join_nothing_stay_the_files_they_are() -> None:
    shard, log = opened()
    for i in range(6):
        shard.append(log, (b"unique%d" % i, bytes(250)))
    shard.append(log, (b"k", bytes(250)))
    shard.append(log, (b"k", bytes(250)))
    for i in range(3):
        shard.append(log, (b"late%d" % i, bytes(250)))
    shard.seal(log)
    before = {segment.info for segment in shard.view(log).sealed}
    shard.compact()
    after = {segment.info for segment in shard.view(log).sealed}
    assert len(before - after) == 1
    assert after < before
    assert [row.offset for row in shard.records(log)] == [0, 1, 2, 3, 4, 5, 7, 8, 9, 10]


def test_compacting_again_finds_nothing_to_do() -> None:
    shard, log = opened()
    for i in range(30):
        shard.append(log, (b"k%d" % (i % 5), b"v%d" % i))
    shard.seal(log)
    shard.compact()
    before, compactions = shard.view(log), shard.engine.metrics.compactions
    shard.compact()
    plan = planned(shard, log, cleaned=Cleaned(0))
    assert plan is not None
    assert execute(plan, shard.disk).edit is None
    assert shard.view(log).sealed == before.sealed
    assert shard.engine.metrics.compactions == compactions == 1


@pytest.mark.parametrize("compression", Compression)
def test_a_thinned_batch_keeps_its_offset_range_timestamps_and_compression(compression: Compression) -> None:
    shard, log = opened(LogSettings(compression=compression, compaction=EAGER))
    shard.append(log, *[(b"k%d" % (i % 7), b"value" * 50) for i in range(50)])
    shard.seal(log)
    old = shard.records(log)
    shard.compact()
    assert shard.records(log) == old[43:]
    [segment] = shard.view(log).sealed
    assert (segment.info.base, segment.info.end, segment.info.records) == (0, 50, 7)


@pytest.mark.parametrize("max_keys", [1, 3, 10])
def test_more_keys_than_fit_in_memory_take_more_walks_and_give_the_same(max_keys: int) -> None:
    shard, log = opened()
    rng = random.Random(max_keys)
    for i in range(80):
        shard.append(log, (b"k%d" % rng.randrange(25), b"v%d" % i if rng.random() < 0.8 else b""))
    shard.seal(log)
    plan = planned(shard, log)
    assert plan is not None
    whole = execute(plan, shard.disk)
    assert whole.edit is not None
    files = {info: shard.disk.open_read(f"{plan.directory}/{info.base:020d}.1.seg").map() for info in whole.edit.added}
    assert execute(plan, shard.disk, max_keys=max_keys) == whole
    for info, data in files.items():
        assert shard.disk.open_read(f"{plan.directory}/{info.base:020d}.1.seg").map() == data


def test_only_sealed_and_checkpointed_segments_are_compacted() -> None:
    shard, log = opened()
    for i in range(20):
        shard.append(log, (b"k", b"%d" % i * 30))
    shard.write()
    assert shard.view(log).sealed
    assert planned(shard, log) is None
    shard.checkpoint()
    assert planned(shard, log) is not None


def test_what_may_still_be_cut_off_supersedes_nothing() -> None:
    shard, log = opened()
    for i in range(20):
        shard.append(log, (b"k", b"%d" % i * 30))
    shard.checkpoint()
    plan = planned(shard, log, stable_end=8)
    assert plan is not None
    assert plan.end <= 8


def test_a_log_is_compacted_once_enough_of_it_is_new() -> None:
    shard, log = opened(LogSettings(segment_bytes=400, compaction=msgspec.structs.replace(EAGER, dirty_ratio=0.5)))
    for i in range(20):
        shard.append(log, (b"k%d" % i, b"v" * 60))
    shard.seal(log)
    bases = [segment.info.base for segment in shard.view(log).sealed]
    due = [planned(shard, log, cleaned=Cleaned(base)) is not None for base in bases]
    assert due == [2 * (len(bases) - i) >= len(bases) for i in range(len(bases))]


def test_left_tombstones_make_a_log_due_once_all_of_them_are_old() -> None:
    shard, log = opened(LogSettings(compaction=msgspec.structs.replace(EAGER, tombstone_s=100.0, dirty_ratio=0.5)))
    shard.append(log, (b"k", b""))
    shard.seal(log)
    now = shard.clock.now_ms()
    assert planned(shard, log, cleaned=Cleaned(1, now)) is None
    shard.clock.advance(100)
    assert planned(shard, log, cleaned=Cleaned(1, now)) is not None


def test_after_opening_compacted_segments_count_as_clean() -> None:
    shard, log = opened(LogSettings(compaction=msgspec.structs.replace(EAGER, dirty_ratio=0.5)))
    shard.append(log, (b"k", b"1"), (b"k", b"2"))
    shard.seal(log)
    shard.compact()
    shard.checkpoint()
    assert planned(shard, log) is None


def test_a_damaged_segment_is_not_compacted() -> None:
    shard, log = opened()
    shard.append(log, (b"k", b"1"), (b"k", b"2"))
    shard.seal(log)
    [segment] = shard.view(log).sealed
    plan = planned(shard, log)
    assert plan is not None
    shard.disk.open(segment.path).write(FilePosition(segment.info.bytes - 1), [b"\xff"])
    with pytest.raises(LogDamaged):
        execute(plan, shard.disk)
    bad = replace(plan, candidates=(replace(segment, info=msgspec.structs.replace(segment.info, records=3)),))
    with pytest.raises(LogDamaged):
        execute(bad, shard.disk)
    assert shard.segment_files(log) == [segment.path.rpartition("/")[2]]


def test_on_a_full_disk_nothing_is_left_of_the_attempt_and_the_log_is_as_it_was() -> None:
    shard, log = opened()
    for i in range(40):
        shard.append(log, (b"k" if i % 2 else b"u%d" % i, bytes(100)))
    shard.seal(log)
    before, files = shard.pairs(log), shard.segment_files(log)
    shard.disk.fail("write", ".1.seg", OSError(28, "No space left on device"))
    shard.compact()
    assert shard.segment_files(log) == files
    assert shard.pairs(log) == before
    shard.compact()
    assert [row.offset for row in shard.records(log)] == [*range(0, 40, 2), 39]


def test_the_caller_can_end_the_work_between_batches_and_no_file_is_left() -> None:
    shard, log = opened()
    for i in range(12):
        shard.append(log, (b"k" if i % 2 else b"u%d" % i, bytes(100)))
    shard.seal(log)
    plan, files = planned(shard, log), shard.segment_files(log)
    assert plan is not None
    for calls in range(20):
        with pytest.raises(InterruptedError):
            execute(plan, shard.disk, between=Interrupt(calls))
        assert shard.segment_files(log) == files


@dataclass(slots=True)
class Interrupt:
    calls: int

    def __call__(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise InterruptedError


def test_a_reader_in_the_middle_keeps_what_it_has_mapped() -> None:
    shard, log = opened()
    for i in range(20):
        shard.append(log, (b"k", b"%d" % i))
    shard.seal(log)
    view, before = shard.view(log), shard.records(log)
    shard.housekeeper.run()
    shard.write()
    assert shard.view(log) != view
    assert view_records(shard.disk, view) == before


def test_the_new_segment_has_an_index_beside_it() -> None:
    shard, log = opened(LogSettings(compaction=EAGER))
    for i in range(12):
        shard.append(log, (b"k%d" % i, bytes(20_000)), (b"k", b""))
    shard.seal(log)
    shard.compact()
    [segment] = shard.view(log).sealed
    index = load_index(shard.disk, segment.path, segment.info)
    assert index == build_index(shard.disk.open_read(segment.path).map())
    assert index is not None
    assert len(index.positions) > 200_000 // (2 * INDEX_STEP_BYTES)


def test_the_old_files_go_after_the_checkpoint_that_no_longer_names_them() -> None:
    shard, log = opened()
    for i in range(20):
        shard.append(log, (b"k", b"%d" % i))
    shard.seal(log)
    shard.compact()
    shard.checkpoint()
    assert shard.segment_files(log) == [segment.path.rpartition("/")[2] for segment in shard.view(log).sealed]


def test_the_compacted_catalogue_folds_to_the_same_state() -> None:
    shard = OpenShard(SimDisk(), FakeClock())
    for i in range(6):
        log = shard.create(f"q{i}", LogSettings())
        if i % 2:
            shard.engine.stage_delete(log, shard.errors.append)
        else:
            shard.engine.stage_change([(log, LogSettings(segment_bytes=1000 + i))], shard.errors.append)
        shard.commit()
    catalogue = shard.engine.logs[CATALOGUE_NUMBER]
    shard.seal(catalogue)
    before = shard.engine.catalogue
    assert len(shard.records(catalogue)) == 12
    for tombstones_kept in (True, False):
        shard.clock.advance(86_400 if not tombstones_kept else 0)
        shard.compact()
        assert len(shard.records(catalogue)) == (6 if tombstones_kept else 3)
        for disk in (shard.disk.crash(random.Random(7)), shard.disk.kill()):
            assert OpenShard(disk, shard.clock).engine.catalogue == before
    shard.checkpoint()
    again = OpenShard(shard.disk.crash(random.Random(8)), shard.clock)
    assert again.engine.catalogue == before
    assert again.create("new", LogSettings()).number == 7
