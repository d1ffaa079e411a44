"""What only the real disk can show: short writes, limits of the system, and the bound on open files."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
from tests.support.descriptors import open_descriptors
from tests.support.limits import files_end_at, small_file_system
from tests.support.simdisk import SimDisk

from penstock.core.errors import InvalidArgument
from penstock.core.ports import File
from penstock.core.types import FilePosition
from penstock.log import disk as disks
from penstock.log.disk import OpenFiles, RealDisk, RealFile
from penstock.log.upkeep.faults import SyncFailed, can_pass

START = FilePosition(0)


def shorten_writes(monkeypatch: pytest.MonkeyPatch, limit_bytes: int) -> None:
    """A system that never takes more than so much at once (and, told 0, takes single bytes from the second call on)."""
    pwrite = os.pwrite

    def short_pwritev(descriptor: int, buffers: Sequence[bytes], position: int) -> int:
        return pwrite(descriptor, b"".join(buffers)[:limit_bytes], position)

    def short_pwrite(descriptor: int, data: memoryview, position: int) -> int:
        return pwrite(descriptor, data[: limit_bytes or 1], position)

    monkeypatch.setattr(os, "pwritev", short_pwritev)
    monkeypatch.setattr(os, "pwrite", short_pwrite)


@pytest.mark.parametrize("limit_bytes", [0, 1, 4, 5, 999])
def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_bytes: int) -> None:
    shorten_writes(monkeypatch, limit_bytes)
    buffers = [b"%04d" % number for number in range(1500)]
    file = RealDisk(tmp_path).create("f")
    file.write(FilePosition(5), buffers)
    assert file.read(FilePosition(5), 1 << 20) == b"".join(buffers)


def test_a_write_that_makes_no_progress_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk(tmp_path).create("f")
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError, match="nothing was written"):
        file.write(START, [b"data"])


def test_a_short_read_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk(tmp_path).create("f")
    file.write(START, [b"0123456789"])
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, position: pread(descriptor, min(size, 3), position))
    assert file.read(START, 8) == b"01234567"
    assert file.read(FilePosition(1), 100) == b"123456789"


def test_the_kernels_short_write_leads_to_its_error(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).create("f")
    with files_end_at(10_000), pytest.raises(OSError) as failed:
        file.write(FilePosition(4000), [b"x" * 4000, b"y" * 4000])
    assert failed.value.errno == errno.EFBIG
    assert file.size() == 10_000
    assert file.read(FilePosition(4000), 6000) == b"x" * 4000 + b"y" * 2000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[RealDisk]:
    with small_file_system(tmp_path, "1m"):
        yield RealDisk(tmp_path)


@pytest.mark.faults
def test_a_full_disk_takes_what_fits_and_then_says_so(small_disk: RealDisk) -> None:
    file = small_disk.create("f")
    file.allocate(1 << 19)
    with pytest.raises(OSError) as failed:
        file.write(FilePosition(1 << 19), [b"x" * (1 << 18)] * 4)
    assert failed.value.errno == errno.ENOSPC
    assert small_disk.free_bytes() == 0
    assert small_disk.total_bytes() == 1 << 20
    file.write(START, [b"inside, so it needs no room"])
    file.sync()
    assert file.size() == 1 << 20
    file.close()


def test_a_map_holds_no_part_of_the_path(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    file = disk.create("old")
    file.write(START, [b"first"])
    view = file.map()
    disk.create("new").write(START, [b"other"])
    disk.rename("new", "old")
    assert bytes(view) == b"first"


def test_a_forgotten_file_is_closed(tmp_path: Path) -> None:
    before = open_descriptors()
    file = RealDisk(tmp_path).create("a")
    assert open_descriptors() == before + 1
    del file
    assert open_descriptors() == before


def test_other_users_cannot_read_messages(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "data")
    disk.make_directory("a/b")
    disk.create("a/b/f").close()
    for path in ("", "a", "a/b", "a/b/f"):
        assert (tmp_path / "data" / path).stat().st_mode & 0o007 == 0


def test_the_number_of_open_files_is_bounded(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    for number in range(20):
        disk.create(f"{number}").close()
    before = open_descriptors()
    files = OpenFiles(disk, 3)
    for number in range(20):
        files.get(f"{number}").write(START, [b"%d" % number])
    assert open_descriptors() == before + 3
    assert files.get("0").read(START, 9) == b"0"
    files.close()
    assert open_descriptors() == before


def test_the_file_used_longest_ago_is_closed_and_shown_before() -> None:
    disk = SimDisk()
    for name in "abc":
        disk.create(name)
    closing: list[tuple[str, int]] = []

    def note(path: str, file: File) -> None:
        closing.append((path, file.size()))

    files = OpenFiles(disk, 2, note)
    first = files.get("a")
    files.get("b")
    assert files.get("a") is first
    files.get("c")
    assert closing == [("b", 0)]
    assert files.get("a") is first
    assert len(files) == 2


def test_a_dropped_file_is_opened_anew() -> None:
    disk = SimDisk()
    disk.create("f")
    files = OpenFiles(disk, 2)
    old = files.get("f")
    files.drop("f")
    files.drop("never opened")
    assert files.get("f") is not old
    with pytest.raises(OSError, match="descriptor"):
        old.size()


def test_a_file_that_cannot_be_opened_is_not_kept() -> None:
    files = OpenFiles(SimDisk(), 1)
    with pytest.raises(FileNotFoundError):
        files.get("absent")
    assert len(files) == 0


def test_a_failure_before_closing_still_closes() -> None:
    disk = SimDisk()
    disk.create("a")
    disk.create("b")
    disk.fail("sync", "a", OSError(errno.EIO, "broken"))
    files = OpenFiles(disk, 1, lambda _, file: file.sync())
    lost = files.get("a")
    with pytest.raises(OSError, match="broken"):
        files.get("b")
    assert len(files) == 0
    with pytest.raises(OSError, match="descriptor"):
        lost.size()


def test_no_room_for_any_file_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        OpenFiles(SimDisk(), 0)


@pytest.mark.parametrize(
    ("module", "name", "call"),
    [
        (os, "pwritev", lambda disk, file: file.write(FilePosition(0), [b"v"])),
        (os, "pread", lambda disk, file: file.read(FilePosition(0), 1)),
        (mmap, "mmap", lambda disk, file: file.map()),
        (mmap, "mmap", lambda disk, file: file.map_shared()),
        (os, "pwritev", lambda disk, file: file.allocate(1 << 20)),
        (os, "open", lambda disk, file: disk.open("a")),
        (os, "open", lambda disk, file: disk.open_read("a")),
        (os, "open", lambda disk, file: disk.create("b")),
    ],
)
def test_a_lack_of_memory_is_a_fault_that_passes(
    module: ModuleType,
    name: str,
    call: Callable[[RealDisk, RealFile], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = RealDisk(tmp_path)
    file = disk.create("a")
    file.write(FilePosition(0), [b"v"])
    monkeypatch.setattr(module, name, without_memory)
    with pytest.raises(OSError) as caught:
        call(disk, file)
    monkeypatch.undo()
    assert can_pass(caught.value)
    file.close()


def test_a_sync_without_memory_for_its_error_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk(tmp_path)
    file = disk.create("a")
    monkeypatch.setattr(os, "fdatasync", without_memory)
    monkeypatch.setattr(os, "fsync", without_memory)
    with pytest.raises(SyncFailed):
        file.sync()
    with pytest.raises(SyncFailed):
        disk.sync_directory("")
    file.close()


def without_memory(*_: object, **__: object) -> NoReturn:
    raise MemoryError


def test_directories_are_made_with_those_above_them_and_stay_if_they_are_there(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "data")
    disk.make_directory("a/b/c")
    disk.create("a/b/c/f").close()
    disk.make_directory("a/b/c")
    disk.make_directory("a/d")
    assert (disk.list("a"), disk.list("a/b/c")) == (["b", "d"], ["f"])
    with pytest.raises(FileExistsError):
        disk.make_directory("a/b/c/f")


def test_a_directory_in_one_that_is_there_is_one_call_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gives up the interpreter, and the keeper waits for it: with a thousand new logs that was seconds."""
    disk = RealDisk(tmp_path)
    disk.make_directory("a/b/c")
    made: list[Path] = []
    mkdir = os.mkdir

    def noted(path: Path, mode: int) -> None:
        made.append(path)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", noted)
    disk.make_directory("a/b/d")
    assert made == [tmp_path / "a/b/d"]


def test_a_file_that_is_there_is_not_cut_by_one_who_makes_it_if_absent(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    with pytest.raises(FileNotFoundError):
        disk.open("f")
    disk.open("f", makes=True).write(FilePosition(0), [b"kept"])
    assert disk.open("f", makes=True).read(FilePosition(0), 9) == b"kept"


def test_the_disk_may_begin_with_a_part_before_it_is_synced(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).create("f")
    file.write(FilePosition(0), [b"a" * 8192])
    file.begin_writing_back(0, 4096)
    file.await_written_back(0, 4096)
    file.sync()
    assert file.read(FilePosition(0), 9000) == b"a" * 8192


def test_a_part_that_was_not_written_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells an error once, and the sync behind it may hear of none."""

    def failing(descriptor: int, start: int, size: int, flags: int) -> int:
        ctypes.set_errno(error)
        return -1

    monkeypatch.setattr(disks, "_sync_file_range", failing)
    file, error = RealDisk(tmp_path).create("f"), errno.EIO
    with pytest.raises(SyncFailed):
        file.begin_writing_back(0, 4096)
    with pytest.raises(SyncFailed):
        file.await_written_back(0, 4096)
    error = errno.ENOSYS
    file.begin_writing_back(0, 4096)
    file.await_written_back(0, 4096)


def test_without_parts_the_whole_file_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(disks, "_sync_file_range", None)
    monkeypatch.setattr(RealFile, "sync", lambda file: synced.append(1))
    file = RealDisk(tmp_path).create("f")
    file.begin_writing_back(0, 1)
    file.await_written_back(0, 1)
    assert synced == [1]
