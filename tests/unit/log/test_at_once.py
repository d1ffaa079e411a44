"""Many files opened and written in one call, on real files that fail: what did not work is left and told, and storage
does it again the ordinary way, so that nothing acknowledged is lost."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.support.descriptors import open_descriptors
from tests.support.limits import descriptors_left, files_end_at, small_file_system
from tests.support.small_shard import SmallShard, rows

from penstock.core.ports import Buffer, File
from penstock.core.types import FilePosition
from penstock.log import disk as disks
from penstock.log.disk import FILE_MODE, OpenFiles, RealDisk
from penstock.log.offline.verify import verify

at_once = pytest.importorskip(
    "penstock.log.at_once", reason="penstock.log.at_once is not compiled here: files are opened and written one by one"
)

MODES = 0o640, 0o750
MOST_BUFFERS = 1024


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def make(root: int, *paths: bytes) -> list[int]:
    return opened(root, list(paths), bytes([1]) * len(paths))


def opened(root: int, paths: list[bytes], makes: bytes) -> list[int]:
    found: list[int] = at_once.open_all(root, paths, makes, *MODES)
    return found


def close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def written(descriptors: list[int], positions: list[int], buffers: list[list[Buffer]]) -> list[bool]:
    found: list[bool] = at_once.write_all(descriptors, positions, buffers)
    return found


def test_the_disk_uses_what_is_tested_here() -> None:
    assert vars(disks)["at_once"] is at_once


# Opening


@pytest.mark.usefixtures("umask")
def test_what_is_to_be_made_is_made_with_its_directory_and_modes(root: int, tmp_path: Path) -> None:
    descriptors = make(root, b"f", b"new/a", b"new/b")
    assert all(descriptor >= 0 for descriptor in descriptors)
    assert not any(os.get_inheritable(descriptor) for descriptor in descriptors)
    for path, descriptor in zip(("f", "new/a", "new/b"), descriptors, strict=True):
        assert (tmp_path / path).stat().st_ino == os.fstat(descriptor).st_ino
        assert (tmp_path / path).stat().st_mode & 0o777 == MODES[0]
        assert os.pwrite(descriptor, b"data", 0) == 4
        assert os.pread(descriptor, 9, 0) == b"data"
    assert (tmp_path / "new").stat().st_mode & 0o777 == MODES[1]
    close(descriptors)


def test_what_is_there_is_opened_as_it_is(root: int, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"kept")
    descriptors = opened(root, [b"a", b"b"], bytes([0, 1]))
    assert [os.pread(descriptor, 9, 0) for descriptor in descriptors] == [b"kept", b"kept"]
    close(descriptors)


def test_what_cannot_be_opened_is_left_and_the_others_go_on(root: int, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_bytes(b"")
    bad = [
        (b"absent", 0),  # and not to be made
        (b"two/levels/f", 1),
        (b"directory", 1),
        (b"file/f", 1),
        (b"x" * 300, 1),
        (b"y" * 300 + b"/f", 1),
        (b"z/" * 2500 + b"f", 1),  # longer than a path may be
        (b"", 1),
    ]
    paths, makes = [b"first", *(path for path, _ in bad), b"last"], [1, *(made for _, made in bad), 1]
    before = open_descriptors()
    descriptors = opened(root, paths, bytes(makes))
    assert [descriptor >= 0 for descriptor in descriptors] == [True, *[False] * len(bad), True]
    close([descriptors[0], descriptors[-1]])
    assert open_descriptors() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "file", "first", "last"]


def test_without_descriptors_nothing_is_made_that_is_not_open(root: int, tmp_path: Path) -> None:
    with descriptors_left(2):
        descriptors = make(root, b"a", b"new/b", b"c", b"other/d")
    assert [descriptor >= 0 for descriptor in descriptors] == [True, True, False, False]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "new"]
    close(descriptors[:2])
    again = make(root, b"a", b"new/b", b"c", b"other/d")
    assert min(again) >= 0
    close(again)


def test_nothing_to_open_is_nothing(root: int) -> None:
    assert opened(root, [], b"") == []


@pytest.mark.parametrize("makes", [b"", b"\x01", b"\x01\x01\x01"])
def test_each_path_says_whether_it_is_to_be_made(root: int, tmp_path: Path, makes: bytes) -> None:
    with pytest.raises(IndexError, match="a byte for each path"):
        opened(root, [b"a", b"b"], makes)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("path", "error"), [(b"b\0c", ValueError), ("b", TypeError), (None, TypeError)])
def test_a_path_that_is_none_is_refused_before_any_is_opened(
    root: int, tmp_path: Path, path: object, error: type[Exception]
) -> None:
    before = open_descriptors()
    with pytest.raises(error):
        at_once.open_all(root, [b"a", path], b"\x01\x01", *MODES)
    assert open_descriptors() == before
    assert not list(tmp_path.iterdir())


# Writing


def test_each_file_gets_its_buffers_from_its_position_on(root: int, tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"0123456789")
    descriptors = make(root, b"a", b"b", b"c")
    buffers: list[list[Buffer]] = [[b"one", bytearray(b"two")], [memoryview(b"xtailx")[1:5], b"", b"!"], []]
    assert written(descriptors, [0, 8, 0], buffers) == [True, True, True]
    assert [(tmp_path / name).read_bytes() for name in "abc"] == [b"onetwo", b"01234567tail!", b""]
    close(descriptors)


def test_a_file_that_is_shorter_than_the_position_is_left_as_it_is(root: int, tmp_path: Path) -> None:
    """There would be a hole of zeros in it, where something was that is lost."""
    for name, size in (("short", 4), ("whole", 5), ("long", 6)):
        (tmp_path / name).write_bytes(b"." * size)
    descriptors = make(root, b"short", b"whole", b"long")
    assert written(descriptors, [5] * 3, [[b"new"]] * 3) == [False, True, True]
    assert [(tmp_path / name).read_bytes() for name in ("short", "whole", "long")] == [
        b"....",
        b".....new",
        b".....new",
    ]
    close(descriptors)


def test_a_short_write_and_none_are_told_apart_from_a_whole_one(root: int, tmp_path: Path) -> None:
    for name in "cd":
        (tmp_path / name).write_bytes(b"." * 100)
    descriptors = make(root, b"a", b"b", b"c", b"d")
    with files_end_at(100):
        done = written(descriptors, [0, 0, 100, 90], [[b"x" * 100], [b"y" * 60, b"z" * 60], [b"w"], [b"v" * 10]])
    assert done == [True, False, False, True]
    found = [(tmp_path / name).read_bytes() for name in "abcd"]
    assert found == [b"x" * 100, b"y" * 60 + b"z" * 40, b"." * 100, b"." * 90 + b"v" * 10]
    close(descriptors)


def test_a_descriptor_that_cannot_be_written_keeps_no_other_from_it(root: int, tmp_path: Path) -> None:
    [first, last] = make(root, b"a", b"b")
    read_only = os.open(tmp_path / "a", os.O_RDONLY)
    closed = disks.CLOSED_DESCRIPTOR
    done = written([first, read_only, closed, closed, -1, last], [0, 0, 0, 1, 0, 0], [[b"x"]] * 6)
    assert done == [True, False, False, False, False, True]
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"x", b"x"]
    close([first, last, read_only])


def test_more_buffers_than_one_call_takes_are_left(root: int, tmp_path: Path) -> None:
    descriptors = make(root, b"a", b"b", b"c")
    many: list[Buffer] = [b"%04d" % number for number in range(MOST_BUFFERS)]
    assert written(descriptors, [0] * 3, [many, [*many, b"one more"], [b"few"]]) == [True, False, True]
    assert [(tmp_path / name).read_bytes() for name in "abc"] == [b"".join(many), b"", b"few"]
    close(descriptors)


def test_nothing_to_write_is_nothing(root: int) -> None:
    assert written([], [], []) == []


@pytest.mark.parametrize(("positions", "buffers"), [([], [[b"x"]]), ([0], []), ([0, 0], [[b"x"]]), ([0], [[], []])])
def test_each_file_has_a_position_and_buffers(
    root: int, tmp_path: Path, positions: list[int], buffers: list[list[Buffer]]
) -> None:
    descriptors = make(root, b"a")
    with pytest.raises(IndexError, match="a position and buffers for each file"):
        written(descriptors, positions, buffers)
    assert (tmp_path / "a").read_bytes() == b""
    close(descriptors)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ([memoryview(b"abcdef")[::2]], BufferError),
        (["text"], TypeError),
        (None, TypeError),
        ((b"a tuple",), TypeError),
    ],
)
def test_what_is_no_buffer_is_refused_before_any_is_written_and_nothing_stays_held(
    root: int, tmp_path: Path, bad: object, error: type[Exception]
) -> None:
    descriptors, held = make(root, b"a", b"b"), bytearray(b"held")
    with pytest.raises(error):
        at_once.write_all(descriptors, [0, 0], [[held], bad])
    held += b"one that somebody holds cannot grow"
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"", b""]
    close(descriptors)


def test_buffers_are_let_go_of_when_it_is_done(root: int) -> None:
    descriptors, data = make(root, b"a"), bytearray(b"data")
    done = written(descriptors, [0], [[data, memoryview(data)[1:]]])
    data.clear()  # one that somebody holds cannot shrink
    assert done == [True]
    close(descriptors)


# A disk


def test_of_a_disk_the_ordinary_way_tells_what_stood_in_the_way(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    files = OpenFiles(disk, 10)
    with descriptors_left(3):  # one is that of the directory while it opens them
        [first, second, *others] = files.get_many([f"l/{name}" for name in "abcd"], [True] * 4)
        assert first is not None
        assert second is not None
        assert others == [None, None]
        third = files.get("l/c", makes=True)
        with pytest.raises(OSError) as failed:
            files.get("l/d", makes=True)
    assert failed.value.errno == errno.EMFILE
    assert (tmp_path / "l" / "a").stat().st_mode & 0o777 == FILE_MODE
    writes: list[tuple[File, FilePosition, list[Buffer]]] = [
        (file, FilePosition(0), [b"x" * size]) for file, size in ((first, 10), (second, 200), (third, 100))
    ]
    with files_end_at(100):
        assert disk.write_many(writes) == [True, False, True]
        with pytest.raises(OSError) as failed:
            second.write(FilePosition(0), [b"x" * 200])
    assert failed.value.errno == errno.EFBIG
    second.write(FilePosition(0), [b"x" * 200])
    assert (tmp_path / "l" / "b").read_bytes() == b"x" * 200
    files.close()


@pytest.mark.faults
def test_a_full_disk_takes_what_fits_and_says_of_which_file_it_did_not(tmp_path: Path) -> None:
    with small_file_system(tmp_path, "1m"):
        disk = RealDisk(tmp_path)
        files = [disk.create(name) for name in "abc"]
        writes: list[tuple[File, FilePosition, list[Buffer]]] = [
            (file, FilePosition(0), [b"x" * (600 << 10)]) for file in files
        ]
        assert disk.write_many(writes) == [True, False, False]
        assert [file.size() for file in files] == [600 << 10, 424 << 10, 0]
        with pytest.raises(OSError) as failed:
            files[1].write(FilePosition(0), [b"x" * (600 << 10)])
        assert failed.value.errno == errno.ENOSPC
        disk.unlink("a")
        files[0].close()
        files[1].write(FilePosition(0), [b"x" * (600 << 10)])
        assert files[1].read(FilePosition(0), 1 << 20) == b"x" * (600 << 10)
        for file in files[1:]:
            file.close()


# Storage


class Failing(RealDisk):
    """What is done to many files at once meets limits, what is done to one does not."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.file_bytes, self.descriptors = 1 << 40, 1 << 10
        self.tried = self.not_opened = self.not_written = 0

    def open_many(self, paths: Sequence[str], makes: Sequence[bool]) -> list[File | None]:
        if self.descriptors >= 1 << 10:
            return super().open_many(paths, makes)
        with descriptors_left(self.descriptors):
            found = super().open_many(paths, makes)
        self.not_opened += found.count(None)
        return found

    def write_many(self, writes: Sequence[tuple[File, FilePosition, list[Buffer]]]) -> list[bool]:
        with files_end_at(self.file_bytes):
            done = super().write_many(writes)
        self.tried += len(done)
        self.not_written += done.count(False)
        return done


LOGS = 8


def value(log: int, number: int) -> bytes:
    return b"%d/%d " % (log, number) * (5 + 9 * log)


def expect_all(root: Path, rounds: int) -> None:
    """In a copy of a directory, which is as a kill leaves it."""
    shard = SmallShard(RealDisk(root))
    for number in range(LOGS):
        log = shard.engine.log(f"l{number}")
        assert log.fault is None
        assert rows(list(shard.reader.batches(log, 0))) == [(i, value(number, i)) for i in range(rounds)]
    shard.close()
    assert verify(root).findings == []


@pytest.mark.parametrize("limit", ["descriptors", "file_bytes"])
def test_what_could_not_be_done_at_once_is_done_and_nothing_acknowledged_is_lost(tmp_path: Path, limit: str) -> None:
    (tmp_path / "data").mkdir(0o700)
    disk = Failing(tmp_path / "data")
    shard, rounds = SmallShard(disk), 12
    logs = [shard.create(f"l{number}") for number in range(LOGS)]
    if limit == "descriptors":
        disk.descriptors = 3
    for number in range(rounds):
        if limit == "file_bytes":
            disk.file_bytes = 100 * (number % 6)  # some files are too long for it, others end in the middle of a write
        for i, log in enumerate(logs):
            shard.append(log, value(i, number))
        shard.settle()
        if number == rounds // 2:
            assert shard.engine.keeper.write_checkpoint()
    assert shard.errors == []
    assert disk.tried
    assert disk.not_opened if limit == "descriptors" else 0 < disk.not_written < disk.tried
    for path in ("killed", "checkpointed"):
        if path == "checkpointed":
            assert shard.engine.keeper.write_checkpoint()
        shutil.copytree(tmp_path / "data", tmp_path / path)
        expect_all(tmp_path / path, rounds)
    shard.abandon()
