"""The simulated disk loses what a real one may lose, and nothing else."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.simdisk import SimDisk, SimFile, SimulatedCrash

from penstock.core.types import FilePosition

START = FilePosition(0)
BROKEN = OSError(errno.EIO, "broken")
OLD, NEW = b"o" * 2048, b"n" * 2048


def contents(disk: SimDisk, path: str = "f") -> bytes:
    file = disk.open_read(path)
    return file.read(START, file.size())


def durable_file(disk: SimDisk, content: bytes, path: str = "f") -> SimFile:
    file = disk.create(path)
    file.write(START, [content])
    file.sync()
    disk.sync_directory(path.rpartition("/")[0])
    return file


def crashes(disk: SimDisk, tries: int = 300) -> list[SimDisk]:
    return [disk.crash(random.Random(seed)) for seed in range(tries)]


def outcomes(disk: SimDisk, tries: int = 300) -> set[bytes]:
    return {contents(after) for after in crashes(disk, tries)}


def listings(disk: SimDisk) -> set[tuple[str, ...]]:
    return {tuple(after.list("")) for after in crashes(disk)}


def test_what_is_synced_is_never_lost() -> None:
    disk = SimDisk()
    file = durable_file(disk, OLD)
    file.write(FilePosition(700), [b"more"])
    file.sync()
    assert outcomes(disk) == {OLD[:700] + b"more" + OLD[704:]}


def test_an_unsynced_write_may_vanish_survive_or_be_torn_at_sectors() -> None:
    disk = SimDisk()
    durable_file(disk, OLD).write(START, [NEW])
    found = outcomes(disk, tries=1500)
    assert {OLD, NEW, NEW[:512] + OLD[512:], OLD[:1536] + NEW[1536:]} <= found
    for content in found:
        assert all(content[at : at + 512] in (OLD[:512], NEW[:512]) for at in range(0, 2048, 512))
    assert len(found) == 16


def test_sectors_are_those_of_the_file_not_of_the_write() -> None:
    disk = SimDisk()
    durable_file(disk, OLD).write(FilePosition(500), [b"n" * 24])
    halves = {b"o" * 24, b"n" * 24, b"n" * 12 + b"o" * 12, b"o" * 12 + b"n" * 12}
    assert {content[500:524] for content in outcomes(disk)} == halves


def test_any_subset_of_unsynced_writes_survives() -> None:
    disk = SimDisk()
    file = durable_file(disk, bytes(2048))
    for index in range(4):
        file.write(FilePosition(index * 512), [b"%d" % index])
    patterns = {bytes(content[index * 512] for index in range(4)) for content in outcomes(disk)}
    assert len(patterns) == 16


def test_a_file_that_grew_may_hold_zeros() -> None:
    disk = SimDisk()
    durable_file(disk, OLD).write(FilePosition(2048), [NEW])
    found = outcomes(disk)
    assert {OLD, OLD + NEW, OLD + bytes(2048), OLD + NEW[:512], OLD + bytes(512) + NEW[512:]} <= found
    assert all(content.startswith(OLD) for content in found)
    assert {byte for content in found for byte in content[2048:]} == {0, ord("n")}


def test_a_lost_write_before_one_that_survived_leaves_zeros() -> None:
    disk = SimDisk()
    file = durable_file(disk, b"")
    file.write(START, [b"a" * 512])
    file.write(FilePosition(512), [b"b" * 512])
    assert bytes(512) + b"b" * 512 in outcomes(disk)


def test_overwriting_in_place_never_makes_zeros() -> None:
    disk = SimDisk()
    file = durable_file(disk, OLD)
    file.write(START, [NEW[:1024]])
    file.write(FilePosition(512), [NEW[:1024]])
    assert all(0 not in content and len(content) == 2048 for content in outcomes(disk))


def test_an_unsynced_truncation_may_be_undone_and_a_synced_one_not() -> None:
    disk = SimDisk()
    file = durable_file(disk, OLD)
    file.truncate(100)
    assert outcomes(disk) == {OLD, OLD[:100]}
    file.sync()
    assert outcomes(disk) == {OLD[:100]}


def test_created_anew_and_synced_a_file_shows_no_old_byte() -> None:
    disk = SimDisk()
    durable_file(disk, OLD)
    file = disk.create("f")
    file.write(FilePosition(100), [b"n"])
    assert any(b"o" in content for content in outcomes(disk))
    file.sync()
    assert outcomes(disk) == {bytes(100) + b"n"}


def test_a_synced_file_without_a_synced_name_may_be_gone() -> None:
    disk = SimDisk()
    file = disk.create("f")
    file.write(START, [NEW])
    file.sync()
    assert listings(disk) == {(), ("f",)}
    assert all(contents(after) == NEW for after in crashes(disk) if after.exists("f"))


def test_a_synced_name_says_nothing_about_the_content() -> None:
    disk = SimDisk()
    disk.create("f").write(START, [b"n"])
    disk.sync_directory("")
    assert outcomes(disk) == {b"", b"\0", b"n"}


def test_an_unsynced_rename_may_be_undone_but_is_never_half_done() -> None:
    disk = SimDisk()
    durable_file(disk, b"old", "f")
    durable_file(disk, b"new", "tmp")
    disk.rename("tmp", "f")
    found = {(tuple(after.list("")), contents(after)) for after in crashes(disk)}
    assert found == {(("f", "tmp"), b"old"), (("f",), b"new")}
    disk.sync_directory("")
    assert outcomes(disk) == {b"new"}


def test_a_rename_across_directories_may_be_half_done() -> None:
    disk = SimDisk()
    disk.make_directory("d")
    durable_file(disk, b"x", "f")
    disk.rename("f", "d/f")
    found = {(after.exists("f"), after.exists("d/f")) for after in crashes(disk)}
    assert len(found) == 4
    disk.sync_directory("d")
    disk.sync_directory("")
    assert {(after.exists("f"), after.exists("d/f")) for after in crashes(disk)} == {(False, True)}


def test_an_unsynced_unlink_may_be_undone() -> None:
    disk = SimDisk()
    durable_file(disk, OLD)
    disk.unlink("f")
    assert listings(disk) == {(), ("f",)}
    assert all(contents(after) == OLD for after in crashes(disk) if after.exists("f"))
    disk.sync_directory("")
    assert listings(disk) == {()}


def test_a_link_is_a_change_of_its_directory_and_shares_its_fate_with_the_first_name() -> None:
    disk = SimDisk()
    file = durable_file(disk, OLD)
    disk.link("f", "g")
    assert listings(disk) == {("f",), ("f", "g")}
    disk.sync_directory("")
    file.write(START, [NEW])
    assert all(contents(after, "f") == contents(after, "g") for after in crashes(disk))


def test_changes_of_a_directory_survive_in_order() -> None:
    disk = SimDisk()
    for name in "abc":
        disk.create(name)
    assert listings(disk) == {(), ("a",), ("a", "b"), ("a", "b", "c")}


def test_changes_of_a_directory_survive_alone_if_asked_for() -> None:
    disk = SimDisk(any_subset_of_entries=True)
    for name in "abc":
        disk.create(name)
    assert len(listings(disk)) == 8


def test_a_directory_that_is_not_synced_in_its_parent_takes_its_files_along() -> None:
    disk = SimDisk()
    disk.make_directory("a/b")
    durable_file(disk, OLD, "a/b/f")
    assert {after.exists("a/b/f") for after in crashes(disk)} == {False, True}
    disk.sync_directory("a")
    disk.sync_directory("")
    assert {after.exists("a/b/f") for after in crashes(disk)} == {True}


def test_what_a_crash_left_is_durable_and_the_disk_before_is_untouched() -> None:
    disk = SimDisk()
    durable_file(disk, OLD).write(START, [NEW])
    disk.create("g")
    after = disk.crash(random.Random(3))
    assert outcomes(after) == {contents(after)}
    assert len(listings(after)) == 1
    after.open("f").write(START, [b"x"])
    assert contents(disk) == NEW


def test_a_killed_process_loses_nothing_but_syncs_nothing() -> None:
    disk = SimDisk()
    durable_file(disk, OLD).write(START, [NEW])
    disk.create("g")
    after = disk.kill()
    assert contents(after) == NEW
    assert after.list("") == ["f", "g"]
    assert {OLD, NEW} <= outcomes(after)
    assert listings(after) == {("f",), ("f", "g")}
    after.open("f").sync()
    after.sync_directory("")
    assert outcomes(after) == {NEW}
    assert listings(after) == {("f", "g")}
    assert OLD in outcomes(disk)


def test_after_a_failed_sync_a_successful_one_makes_nothing_durable() -> None:
    lost = set()
    for seed in range(200):
        disk = SimDisk(seed)
        file = durable_file(disk, OLD)
        file.write(START, [NEW])
        disk.fail("sync", "f", BROKEN)
        with pytest.raises(OSError, match="broken"):
            file.sync()
        file.sync()
        assert contents(disk) == NEW
        assert len(outcomes(disk.kill(), tries=20)) == 1
        lost |= {contents(disk.crash(random.Random(seed)))}
    assert {OLD, NEW, NEW[:512] + OLD[512:]} <= lost


def test_what_is_written_again_after_a_failed_sync_can_be_synced() -> None:
    disk = SimDisk()
    file = durable_file(disk, OLD)
    disk.fail("sync", "f", BROKEN)
    file.write(START, [NEW])
    with pytest.raises(OSError, match="broken"):
        file.sync()
    file.write(START, [NEW])
    file.sync()
    assert outcomes(disk) == {NEW}


def test_a_failed_sync_of_a_directory_may_lose_its_changes_for_good() -> None:
    found = set()
    for seed in range(50):
        disk = SimDisk(seed)
        disk.create("f")
        disk.fail("sync_directory", "", BROKEN)
        with pytest.raises(OSError, match="broken"):
            disk.sync_directory("")
        disk.sync_directory("")
        found |= listings(disk)
    assert found == {(), ("f",)}


def test_a_failed_write_has_written_some_part() -> None:
    sizes = set()
    for seed in range(200):
        disk = SimDisk(seed)
        file = disk.create("f")
        disk.fail("write", "f", OSError(errno.ENOSPC, "full"))
        with pytest.raises(OSError, match="full"):
            file.write(START, [b"abcd"])
        assert b"abcd".startswith(contents(disk))
        sizes.add(file.size())
    assert sizes == {0, 1, 2, 3, 4}


def test_a_fault_hits_its_call_and_path_as_often_as_told() -> None:
    disk = SimDisk()
    disk.create("a")
    disk.fail("rename", "b", BROKEN, times=2)
    disk.rename("a", "c")
    for _ in range(2):
        with pytest.raises(OSError, match="broken"):
            disk.rename("c", "b")
    disk.rename("c", "b")
    assert disk.list("") == ["b"]


def test_a_full_disk_takes_what_fits() -> None:
    disk = SimDisk(capacity_bytes=1000)
    file = disk.create("f")
    disk.create("g").allocate(300)
    assert (disk.free_bytes(), disk.total_bytes()) == (700, 1000)
    with pytest.raises(OSError) as failed:
        file.write(START, [b"x" * 600, b"y" * 200])
    assert failed.value.errno == errno.ENOSPC
    assert contents(disk) == b"x" * 600 + b"y" * 100
    assert disk.free_bytes() == 0
    file.write(START, [b"inside"])
    disk.unlink("g")
    assert disk.free_bytes() == 300
    assert disk.crash(random.Random(1)).total_bytes() == 1000


def test_a_link_takes_no_space() -> None:
    disk = SimDisk(capacity_bytes=1000)
    disk.create("f").allocate(300)
    disk.link("f", "g")
    assert disk.free_bytes() == 700


def test_an_allocation_is_durable_or_partial() -> None:
    disk = SimDisk()
    durable_file(disk, b"").allocate(65536)
    assert outcomes(disk) == {bytes(65536)}
    disk.fail("allocate", "f", OSError(errno.ENOSPC, "full"))
    with pytest.raises(OSError, match="full"):
        disk.open("f").allocate(131072)
    assert {len(content) >= 65536 for content in outcomes(disk)} == {True}


MUTATIONS: list[Callable[[SimDisk], object]] = [
    lambda disk: disk.open("f").write(START, [b"x"]),
    lambda disk: disk.open("f").sync(),
    lambda disk: disk.open("f").truncate(0),
    lambda disk: disk.open("f").allocate(9),
    lambda disk: disk.create("g"),
    lambda disk: disk.rename("f", "h"),
    lambda disk: disk.unlink("f"),
    lambda disk: disk.link("f", "i"),
    lambda disk: disk.sync_directory(""),
    lambda disk: disk.make_directory("d"),
    lambda disk: disk.remove_directory("d"),
]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_every_change_counts_and_can_be_the_moment_of_the_crash(mutate: Callable[[SimDisk], object]) -> None:
    disk = SimDisk()
    durable_file(disk, b"old")
    counted = disk.calls
    mutate(disk.kill())
    disk.crash_at = counted + 1
    with pytest.raises(SimulatedCrash):
        mutate(disk)
    assert disk.calls == counted + 1
    for again in MUTATIONS:
        with pytest.raises(SimulatedCrash):
            again(disk)
    assert disk.calls == counted + 1
    mutate(disk.kill())


def test_reading_is_not_counted() -> None:
    disk = SimDisk()
    file = durable_file(disk, b"old")
    counted = disk.calls
    assert (file.read(START, 9), bytes(file.map()), file.size()) == (b"old", b"old", 3)
    assert (disk.list(""), disk.exists("f"), disk.free_bytes() > 0) == (["f"], True, True)
    assert disk.calls == counted


def test_a_crash_inside_a_write_leaves_a_part_of_it_unsynced() -> None:
    seen = set()
    for seed in range(100):
        disk = SimDisk(seed)
        file = durable_file(disk, b"")
        disk.crash_at = disk.calls + 1
        with pytest.raises(SimulatedCrash):
            file.write(START, [b"abc"])
        seen.add(contents(disk))
        assert b"" in outcomes(disk, tries=50)
    assert seen == {b"", b"a", b"ab", b"abc"}


def test_a_crash_instead_of_a_sync_leaves_everything_unsynced() -> None:
    disk = SimDisk()
    file = durable_file(disk, OLD)
    file.write(START, [NEW])
    disk.crash_at = disk.calls + 1
    with pytest.raises(SimulatedCrash):
        file.sync()
    assert {OLD, NEW} <= outcomes(disk)


Step = tuple[str, int, bytes]
steps = st.tuples(
    st.sampled_from(["write", "write", "truncate", "sync"]), st.integers(0, 3000), st.binary(min_size=1, max_size=1500)
)


def play(disk: SimDisk, plan: list[Step]) -> None:
    file = durable_file(disk, OLD)
    for call, number, data in plan:
        if call == "write":
            file.write(FilePosition(number), [data])
        elif call == "truncate":
            file.truncate(number)
        else:
            file.sync()


@settings(max_examples=100, deadline=None)
@given(plan=st.lists(steps, max_size=8), seed=st.integers(0, 1 << 32))
def test_the_same_seed_gives_the_same_crash(plan: list[Step], seed: int) -> None:
    first, second = SimDisk(7), SimDisk(7)
    play(first, plan)
    play(second, plan)
    assert contents(first.crash(random.Random(seed))) == contents(second.crash(random.Random(seed)))
    assert contents(first.crash(random.Random(seed))) == contents(first.kill().crash(random.Random(seed)))


@settings(max_examples=100, deadline=None)
@given(plan=st.lists(steps, max_size=8), seed=st.integers(0, 1 << 32))
def test_every_byte_after_a_crash_was_once_there_or_is_zero(plan: list[Step], seed: int) -> None:
    disk = SimDisk()
    play(disk, plan)
    for position, byte in enumerate(contents(disk.crash(random.Random(seed)))):
        written = {
            data[position - at] for call, at, data in plan if call == "write" and at <= position < at + len(data)
        }
        assert byte in written | {0} | set(OLD[position : position + 1])
