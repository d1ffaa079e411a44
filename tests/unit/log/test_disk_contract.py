"""What both disks promise: the real one below a directory, and the one that the crash tests put in its place."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.simdisk import SimDisk

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Disk, File
from penstock.core.types import FilePosition
from penstock.log.disk import RealDisk

START = FilePosition(0)


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return RealDisk(tmp_path) if request.param == "real" else SimDisk()


def put(disk: Disk, path: str, content: bytes) -> File:
    file = disk.create(path)
    file.write(START, [content])
    return file


def contents(disk: Disk, path: str) -> bytes:
    file = disk.open_read(path)
    try:
        return file.read(START, file.size())
    finally:
        file.close()


def test_buffers_are_written_one_behind_the_other(disk: Disk) -> None:
    file = disk.create("f")
    file.write(FilePosition(3), [b"ab", bytearray(b"cd"), memoryview(b"xefx")[1:3], b""])
    assert contents(disk, "f") == b"\0\0\0abcdef"


def test_more_buffers_than_one_call_takes_are_written(disk: Disk) -> None:
    buffers = [b"%04d" % number for number in range(2500)]
    file = disk.create("f")
    file.write(FilePosition(1), buffers)
    assert contents(disk, "f") == b"\0" + b"".join(buffers)


def test_writing_nothing_changes_nothing(disk: Disk) -> None:
    file = disk.create("f")
    file.write(FilePosition(100), [])
    file.write(FilePosition(100), [b"", b""])
    assert file.size() == 0


def test_a_read_is_short_only_at_the_end(disk: Disk) -> None:
    file = put(disk, "f", b"0123456789")
    assert file.read(FilePosition(2), 3) == b"234"
    assert file.read(FilePosition(8), 100) == b"89"
    assert file.read(FilePosition(10), 5) == b""
    assert file.read(FilePosition(50), 5) == b""


def test_truncating_cuts_and_grows_with_zeros(disk: Disk) -> None:
    file = put(disk, "f", b"0123456789")
    file.truncate(4)
    file.truncate(6)
    file.sync()
    assert contents(disk, "f") == b"0123\0\0"


def test_allocating_adds_zeros_and_keeps_what_is_there(disk: Disk) -> None:
    file = put(disk, "f", b"keep")
    file.allocate(3 << 20)
    assert file.size() == 3 << 20
    assert contents(disk, "f").rstrip(b"\0") == b"keep"
    file.allocate(10)
    assert file.size() == 3 << 20


def test_a_map_is_read_only_and_outlives_file_and_name(disk: Disk) -> None:
    file = put(disk, "f", b"mapped")
    view = file.map()
    file.close()
    disk.unlink("f")
    assert bytes(view) == b"mapped"
    assert view.readonly


def test_the_map_of_an_empty_file_is_empty(disk: Disk) -> None:
    assert bytes(disk.create("f").map()) == b""


def test_a_closed_file_refuses_everything(disk: Disk) -> None:
    file = disk.create("f")
    file.close()
    file.close()
    attempts: list[Callable[[], object]] = [
        lambda: file.read(START, 1),
        lambda: file.write(START, [b"x"]),
        file.sync,
        file.size,
        file.map,
    ]
    for attempt in attempts:
        with pytest.raises(OSError, match="descriptor"):
            attempt()


def test_a_file_opened_for_reading_takes_no_write(disk: Disk) -> None:
    put(disk, "f", b"old")
    with pytest.raises(OSError, match="descriptor"):
        disk.open_read("f").write(START, [b"new"])
    assert contents(disk, "f") == b"old"


def test_create_cuts_a_file_that_exists_for_all_who_have_it_open(disk: Disk) -> None:
    first = put(disk, "f", b"old")
    second = disk.create("f")
    assert first.size() == 0
    second.write(START, [b"n"])
    assert first.read(START, 9) == b"n"


def test_a_file_that_is_not_there_cannot_be_opened(disk: Disk) -> None:
    for attempt in (disk.open, disk.open_read):
        with pytest.raises(FileNotFoundError):
            attempt("absent")
    with pytest.raises(FileNotFoundError):
        disk.create("absent/f")


def test_rename_replaces_and_open_files_follow_the_content(disk: Disk) -> None:
    old, new = put(disk, "old", b"old"), put(disk, "new", b"new")
    disk.rename("new", "old")
    assert disk.list("") == ["old"]
    assert contents(disk, "old") == b"new"
    assert old.read(START, 3) == b"old"
    assert new.read(START, 3) == b"new"
    with pytest.raises(FileNotFoundError):
        disk.rename("absent", "old")


def test_renames_go_across_directories_and_take_directories_along(disk: Disk) -> None:
    disk.make_directory("a/b")
    disk.make_directory("c")
    put(disk, "a/b/f", b"data")
    disk.rename("a/b", "c/moved")
    assert disk.list("a") == []
    assert contents(disk, "c/moved/f") == b"data"


def test_a_file_is_not_renamed_onto_a_directory(disk: Disk) -> None:
    put(disk, "f", b"")
    disk.make_directory("d")
    with pytest.raises(IsADirectoryError):
        disk.rename("f", "d")


def test_a_link_shares_the_content_and_survives_the_first_name(disk: Disk) -> None:
    file = put(disk, "a", b"1")
    disk.link("a", "b")
    file.write(FilePosition(1), [b"2"])
    disk.unlink("a")
    assert contents(disk, "b") == b"12"
    put(disk, "c", b"")
    with pytest.raises(FileExistsError):
        disk.link("b", "c")


def test_unlinking_is_silent_about_an_absent_file_and_refuses_a_directory(disk: Disk) -> None:
    disk.unlink("absent")
    disk.unlink("absent/f")
    disk.make_directory("d")
    with pytest.raises(OSError) as refused:
        disk.unlink("d")
    assert refused.value.errno in (errno.EISDIR, errno.EPERM)


def test_directories_are_made_with_parents_and_removed_when_empty(disk: Disk) -> None:
    disk.make_directory("a/b/c")
    disk.make_directory("a/b/c")
    put(disk, "a/b/c/f", b"")
    with pytest.raises(OSError) as refused:
        disk.remove_directory("a/b/c")
    assert refused.value.errno == errno.ENOTEMPTY
    disk.unlink("a/b/c/f")
    disk.remove_directory("a/b/c")
    disk.remove_directory("a/b/c")
    assert disk.list("a") == ["b"]
    assert disk.list("a/b") == []


def test_a_directory_is_not_made_in_place_of_a_file(disk: Disk) -> None:
    put(disk, "f", b"")
    with pytest.raises(FileExistsError):
        disk.make_directory("f")


def test_a_listing_is_sorted_and_empty_for_what_is_absent(disk: Disk) -> None:
    for name in ("b", "c", "a"):
        put(disk, name, b"")
    disk.make_directory("ab")
    assert disk.list("") == disk.list(".") == ["a", "ab", "b", "c"]
    assert disk.list("absent") == []


def test_exists_knows_files_and_directories(disk: Disk) -> None:
    disk.make_directory("d")
    put(disk, "d/f", b"")
    assert [disk.exists(path) for path in ("", "d", "d/f", "d/g", "d/f/g")] == [True, True, True, False, False]


def test_an_absent_directory_cannot_be_synced(disk: Disk) -> None:
    disk.sync_directory("")
    with pytest.raises(FileNotFoundError):
        disk.sync_directory("absent")


@pytest.mark.parametrize("path", ["/etc/passwd", "..", "a/../../b", "a/..", "a\0b"])
def test_no_path_leads_out_of_the_root(disk: Disk, path: str) -> None:
    calls: list[Callable[[str], object]] = [
        disk.open,
        disk.open_read,
        disk.create,
        disk.exists,
        disk.list,
        disk.make_directory,
        disk.remove_directory,
        disk.unlink,
        disk.sync_directory,
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match="not a path below"):
            call(path)


def test_space_is_told(disk: Disk) -> None:
    assert 0 < disk.free_bytes() <= disk.total_bytes()


Step = tuple[str, int, bytes]
steps = st.tuples(
    st.sampled_from(["write", "truncate", "sync", "create", "allocate"]), st.integers(0, 1500), st.binary(max_size=600)
)


def play(disk: Disk, plan: list[Step]) -> bytes:
    file = disk.create("f")
    for call, number, data in plan:
        if call == "write":
            file.write(FilePosition(number), [data[:7], data[7:]])
        elif call == "truncate":
            file.truncate(number)
        elif call == "allocate":
            file.allocate(number)
        elif call == "create":
            disk.create("f").close()
        else:
            file.sync()
    file.close()
    return contents(disk, "f")


@settings(max_examples=100, deadline=None)
@given(plan=st.lists(steps, max_size=12))
def test_both_disks_hold_the_same_after_the_same_calls(
    tmp_path_factory: pytest.TempPathFactory, plan: list[Step]
) -> None:
    real = RealDisk(tmp_path_factory.getbasetemp())
    assert play(real, plan) == play(SimDisk(), plan)
