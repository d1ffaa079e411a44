"""Files that a reader, or a recovery, may still need are left alone."""

from __future__ import annotations

import errno

import msgspec
import pytest
from tests.support.clock import FakeClock
from tests.support.simdisk import SimDisk
from tests.support.small_shard import SmallShard

from penstock.log.partition import Log
from penstock.log.records import Edit
from penstock.log.segments.segments import segment_path


def filled() -> tuple[SmallShard, Log]:
    """Several sealed segments and an active one, all checkpointed."""
    shard = SmallShard(SimDisk(), FakeClock())
    log = shard.create("a")
    for i in range(40):
        shard.append(log, b"%d" % i * 40)
        shard.settle()
    assert shard.engine.keeper.write_checkpoint()
    return shard, log


def files(shard: SmallShard, log: Log) -> set[str]:
    directory = shard.engine.keeper.logs[log.number].directory
    return {f"{directory}/{name}" for name in shard.disk.list(directory) if name.endswith(".seg")}


def bytes_of(shard: SmallShard, paths: set[str]) -> dict[str, bytes]:
    return {path: bytes(shard.disk.open_read(path).map()) for path in paths}


@pytest.mark.parametrize("end", [1, 17, 38, 39])
def test_a_cut_changes_no_byte_of_a_file_that_stays(end: int) -> None:
    shard, log = filled()
    named = shard.engine.keeper.checkpointed_state(log.number)
    before = bytes_of(shard, files(shard, log))
    shard.cut(log, end)
    for i in range(5):
        shard.append(log, b"new-%d" % i)
    shard.settle()
    kept = files(shard, log) & set(before)
    assert bytes_of(shard, kept) == {path: before[path] for path in kept}
    directory = shard.engine.keeper.logs[log.number].directory
    infos = [*named.sealed, *([named.active] if named.active is not None else [])]
    assert {segment_path(directory, info.base, info.version) for info in infos if info.base < end} <= kept
    assert shard.engine.keeper.write_checkpoint()
    assert files(shard, log) == set(shard.engine.keeper.logs[log.number].paths())


def test_names_are_not_used_again_after_a_cut() -> None:
    shard, log = filled()
    before = files(shard, log)
    shard.cut(log, 0)
    for i in range(40):
        shard.append(log, b"%d" % i * 40)
    shard.settle()
    assert not before & set(shard.engine.keeper.logs[log.number].paths())


def test_a_swap_leaves_the_old_files_until_the_next_checkpoint() -> None:
    shard, log = filled()
    written = shard.engine.keeper.logs[log.number]
    old = written.sealed[0]
    info = msgspec.structs.replace(old.info, version=1)
    shard.disk.link(old.path, segment_path(written.directory, info.base, 1))
    shard.edit(log, Edit(removed=((old.info.base, 0),), added=(info,)))
    assert written.sealed[0].info == info
    assert shard.disk.exists(old.path)
    assert shard.engine.keeper.write_checkpoint()
    assert not shard.disk.exists(old.path)
    assert [offset for offset, _ in shard.values(log)] == list(range(40))


def test_a_log_that_was_written_anew_survives_a_kill_before_the_next_checkpoint() -> None:
    shard, log = filled()
    assert isinstance(shard.disk, SimDisk)
    shard.append(log, b"more")
    shard.settle()
    shard.disk.fail("sync", ".seg", OSError(errno.EIO, "failed"))
    assert not shard.engine.keeper.write_checkpoint()
    shard.abandon()
    again = SmallShard(shard.disk.kill(), shard.clock)
    log = again.engine.log("a")
    assert log.fault is None
    assert [offset for offset, _ in again.values(log)] == list(range(41))
