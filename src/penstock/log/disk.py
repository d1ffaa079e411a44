"""The file system behind `core.ports.Disk`, and the lock of a data directory. Nothing else in Penstock opens, maps,
syncs or renames a file."""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import re
import struct
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import cast

import msgspec

from penstock.core.errors import DirectoryInUse, InvalidArgument
from penstock.core.ports import Buffer, Disk, File
from penstock.core.types import FilePosition
from penstock.log.upkeep.faults import SyncFailed, memory, out_of_memory

try:
    from penstock.log import at_once
except ImportError:  # not compiled, or not on Linux: one call after the other
    at_once = None  # type: ignore[assignment]

# The most buffers one pwritev takes, on Linux and macOS.
IOV_MAX = 1024
ALLOCATE_CHUNK_BYTES = 1 << 20
# Messages are the owner's. Whoever lets the group into the data directory (chmod 750: a Spark job reads it) lets it
# read what is made there from then on; others never are let in.
FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
_GROUP_FILE, _GROUP_DIRECTORY = 0o040, 0o050
_OWNER_MODES = FILE_MODE, DIRECTORY_MODE
LOCK_FILE = "lock"
# It is there before a broker is, and replaced only by one that starts.
_FOLLOWED_FILE = "format"
# No file ever has it. The system answers it with EBADF, where os.fdatasync(-1) is a ValueError.
CLOSED_DESCRIPTOR = (1 << 31) - 1

Names = list[str]
Syncfs = Callable[[int], int]
SyncFileRange = Callable[[int, int, int, int], int]
# Of sync_file_range(2), and what it says where a file system does not have it.
_RANGE_WAIT_BEFORE, _RANGE_WRITE, _RANGE_WAIT_AFTER = 1, 2, 4
_NO_RANGES = (errno.EINVAL, errno.ENOSYS, errno.ESPIPE)


def relative_parts(path: str) -> Names:
    """The names along a path below the root; `""` and `"."` are the root. InvalidArgument if it leaves the root."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise InvalidArgument(f"{path!r} is not a path below the data directory")
    return [part for part in parts if part not in ("", ".")]


class RealFile:
    """One open descriptor, used by one thread at a time. After close() every call but close() gives OSError (EBADF).
    What nobody holds any more is closed."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def write(self, position: FilePosition, buffers: Sequence[Buffer]) -> None:
        """Write all of the buffers, one behind the other; a memoryview among them is one of single bytes."""
        try:
            if len(buffers) <= IOV_MAX:
                wanted = sum(map(len, buffers))
                if wanted and (written := os.pwritev(self.descriptor, buffers, position)) < wanted:
                    self._write_rest(position + written, memoryview(b"".join(buffers))[written:])
                return
            for first in range(0, len(buffers), IOV_MAX):
                position = self._write_vector(position, buffers[first : first + IOV_MAX])
        except MemoryError as error:
            raise out_of_memory() from error

    def _write_vector(self, position: int, buffers: Sequence[Buffer]) -> FilePosition:
        wanted = sum(map(len, buffers))
        written = os.pwritev(self.descriptor, buffers, position) if wanted else 0
        if written < wanted:
            self._write_rest(position + written, memoryview(b"".join(buffers))[written:])
        return FilePosition(position + wanted)

    def _write_rest(self, position: int, rest: memoryview) -> None:
        # A full disk writes what fits and says ENOSPC only to the next call, so going on is how the error is found.
        while rest:
            written = os.pwrite(self.descriptor, rest, position)
            if written == 0:
                raise OSError(errno.EIO, f"nothing was written at byte {position}")
            position += written
            rest = rest[written:]

    def read(self, position: FilePosition, size: int) -> bytes:
        with memory:
            data = os.pread(self.descriptor, size, position)
            if len(data) == size or not data:
                return data
            return self._read_rest(position, size, data)

    def _read_rest(self, position: int, size: int, data: bytes) -> bytes:
        chunks, got = [data], len(data)
        while got < size and (chunk := os.pread(self.descriptor, size - got, position + got)):
            chunks.append(chunk)
            got += len(chunk)
        return b"".join(chunks)

    if sys.platform == "darwin":

        def sync(self) -> None:
            # fsync there leaves the data in the drive's cache.
            try:
                fcntl.fcntl(self.descriptor, fcntl.F_FULLFSYNC)
            except OSError as error:
                raise SyncFailed.of(error) from error
    else:

        def sync(self) -> None:
            """SyncFailed if it is not known what of the file is on the disk."""
            try:
                os.fdatasync(self.descriptor)
            except MemoryError as error:  # a sync that failed, and no memory for the error
                raise SyncFailed.of(out_of_memory()) from error
            except OSError as error:
                raise SyncFailed.of(error) from error

    def begin_writing_back(self, start: int, stop: int) -> None:
        if _sync_file_range is not None:
            self._write_back(_sync_file_range, start, stop, _RANGE_WRITE)

    def await_written_back(self, start: int, stop: int) -> None:
        if _sync_file_range is None:
            self.sync()
        else:
            self._write_back(_sync_file_range, start, stop, _RANGE_WAIT_BEFORE | _RANGE_WRITE | _RANGE_WAIT_AFTER)

    def _write_back(self, sync_range: SyncFileRange, start: int, stop: int, flags: int) -> None:
        """SyncFailed at once: what has been told now may not be told again by sync()."""
        if sync_range(self.descriptor, start, stop - start, flags):
            error = OSError(number := ctypes.get_errno(), os.strerror(number))
            if number not in _NO_RANGES:
                raise SyncFailed.of(error)

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)

    def allocate(self, size: int) -> None:
        """Zeros from the file's end up to size, synced. They are written, not fallocated: an extent marked unwritten is
        converted at the first write into it, which is the metadata change that this is to avoid."""
        with memory:
            position = self.size()
            zeros = memoryview(bytes(min(ALLOCATE_CHUNK_BYTES, max(size - position, 0))))
            while position < size:
                position = self._write_vector(position, [zeros[: size - position]])
        self.sync()

    def map(self) -> memoryview:
        """Reading past a later truncation kills the process (SIGBUS): map only files that will not shrink. Before
        Python 3.13 a map holds a descriptor of its own until the last view of it is gone."""
        if self.size() == 0:
            return memoryview(b"")
        with memory:
            if sys.version_info >= (3, 13):
                return memoryview(mmap.mmap(self.descriptor, 0, prot=mmap.PROT_READ, trackfd=False))
            return memoryview(mmap.mmap(self.descriptor, 0, prot=mmap.PROT_READ))

    def map_shared(self) -> memoryview:
        """The file for reading and writing: a store is seen at once by every process that has it mapped."""
        with memory:
            return memoryview(mmap.mmap(self.descriptor, 0, prot=mmap.PROT_READ | mmap.PROT_WRITE))

    def sync_file_system(self, syncfs: Syncfs) -> None:
        if syncfs(self.descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, CLOSED_DESCRIPTOR
        if descriptor != CLOSED_DESCRIPTOR:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def _find_syncfs() -> Syncfs | None:
    """Linux has it; it reports failed writes since 5.8, and silence about those would be worse than many syncs."""
    if sys.platform != "linux":
        return None
    version = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
    if version < (5, 8):
        return None
    syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    syncfs.argtypes, syncfs.restype = [ctypes.c_int], ctypes.c_int
    return cast(Syncfs, syncfs)


_syncfs = _find_syncfs()


def _find_sync_file_range() -> SyncFileRange | None:
    if sys.platform != "linux":
        return None
    found = ctypes.CDLL(None, use_errno=True).sync_file_range
    found.argtypes, found.restype = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint], ctypes.c_int
    return cast(SyncFileRange, found)


_sync_file_range = _find_sync_file_range()


def make_data_directory(root: Path) -> None:
    """With the parents that are missing, for its owner alone. Its name, and theirs, are durable when this returns."""
    missing = [path for path in (root, *root.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(DIRECTORY_MODE if path is root else 0o777, exist_ok=True)
    # One that is empty may have been made by a process that ended before it could sync.
    for path in missing or ([] if any(root.iterdir()) else [root]):
        with contextlib.suppress(PermissionError):  # one that may be passed through, but not be looked into
            _sync_directory(path.absolute().parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with memory:
            os.fsync(descriptor)
    except OSError as error:
        raise SyncFailed.of(error) from error
    finally:
        os.close(descriptor)


def is_open_to_others(root: Path) -> bool:
    """Whether somebody who is neither its owner nor in its group can look into a data directory."""
    try:
        return bool(root.stat().st_mode & 0o007)
    except FileNotFoundError:
        return False


def _is_open_to_group(root: Path) -> bool:
    return root.stat().st_mode & _GROUP_DIRECTORY == _GROUP_DIRECTORY


class RealDisk:
    """The directory tree below `root`. Any thread may call it; the files it opens have one thread each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._watch: RealFile | None = None
        self._is_group: bool | None = None

    @property
    def _modes(self) -> tuple[int, int]:
        """Of files and of directories."""
        if self._is_group is None:
            self._is_group = _is_open_to_group(self.root)
        return (FILE_MODE | _GROUP_FILE, DIRECTORY_MODE | _GROUP_DIRECTORY) if self._is_group else _OWNER_MODES

    def _at(self, path: str) -> Path:
        return self.root.joinpath(*relative_parts(path))

    def open(self, path: str, makes: bool = False) -> RealFile:
        flags, mode = (os.O_RDWR | os.O_CREAT, self._modes[0]) if makes else (os.O_RDWR, 0)
        with memory:
            return RealFile(os.open(self._at(path), flags, mode))

    def open_many(self, paths: Sequence[str], makes: Sequence[bool]) -> builtins.list[File | None]:
        if at_once is None:
            return [None] * len(paths)
        names = ["/".join(relative_parts(path)).encode() for path in paths]
        root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            descriptors = at_once.open_all(root, names, bytes(makes), *self._modes)
        finally:
            os.close(root)
        return [None if descriptor < 0 else RealFile(descriptor) for descriptor in descriptors]

    def write_many(self, writes: Sequence[tuple[File, FilePosition, builtins.list[Buffer]]]) -> builtins.list[bool]:
        if at_once is None:
            return [False] * len(writes)
        descriptors = [cast(RealFile, file).descriptor for file, _, _ in writes]
        positions, buffers = [position for _, position, _ in writes], [buffers for _, _, buffers in writes]
        return at_once.write_all(descriptors, positions, buffers)

    def open_read(self, path: str) -> RealFile:
        with memory:
            return RealFile(os.open(self._at(path), os.O_RDONLY))

    def create(self, path: str) -> RealFile:
        with memory:
            return RealFile(os.open(self._at(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC, self._modes[0]))

    def exists(self, path: str) -> bool:
        return self._at(path).exists()

    def list(self, path: str) -> Names:
        try:
            with memory:
                return sorted(entry.name for entry in self._at(path).iterdir())
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        """With parents, the root too. Durable when the parent of each directory made is synced; the root's name is."""
        names = relative_parts(path)
        if names:
            self._make_below(self.root.joinpath(*names))
        elif not self.root.is_dir():
            make_data_directory(self.root)

    def _make_below(self, directory: Path) -> None:
        try:
            directory.mkdir(self._modes[1], exist_ok=True)
        except FileNotFoundError:
            self.make_directory("") if directory.parent == self.root else self._make_below(directory.parent)
            directory.mkdir(self._modes[1], exist_ok=True)

    def remove_directory(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._at(path).rmdir()

    def rename(self, old: str, new: str) -> None:
        self._at(old).replace(self._at(new))

    def unlink(self, path: str) -> None:
        self._at(path).unlink(missing_ok=True)

    def link(self, old: str, new: str) -> None:
        self._at(new).hardlink_to(self._at(old))

    def sync_directory(self, path: str) -> None:
        _sync_directory(self._at(path))

    def watch(self) -> None:
        """The kernel reports to a descriptor what fails after it was opened."""
        if _syncfs is not None and self._watch is None:
            self._watch = RealFile(os.open(self.root, os.O_RDONLY | os.O_DIRECTORY))

    def sync_all(self) -> bool:
        if _syncfs is None or self._watch is None:
            return False
        self._watch.sync_file_system(_syncfs)
        return True

    def free_bytes(self) -> int:
        """What an unprivileged writer can still take."""
        figures = os.statvfs(self.root)
        return figures.f_bavail * figures.f_frsize

    def total_bytes(self) -> int:
        figures = os.statvfs(self.root)
        return figures.f_blocks * figures.f_frsize


class OpenFiles:
    """At most `limit` open files of a disk, the least recently used closed first. For one thread, which uses what get()
    gave it before it calls again, and keeps nothing.

    `before_close` is called with a file that is closed to make room. Who writes through it and syncs later should sync
    there: the kernel may forget a failed write-back of a file that nobody has open."""

    def __init__(self, disk: Disk, limit: int, before_close: Callable[[str, File], None] | None = None) -> None:
        if limit < 1:
            raise InvalidArgument(f"at least one file must be open, not {limit}")
        self._disk = disk
        self._limit = limit
        self._before_close = before_close
        self._files: OrderedDict[str, File] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str, makes: bool = False) -> File:
        """Open for reading and writing; FileNotFoundError if absent, unless it `makes` an empty one."""
        file = self._files.get(path)
        if file is not None:
            self._files.move_to_end(path)
            return file
        while len(self._files) >= self._limit:
            self._close_oldest()
        file = self._files[path] = self._disk.open(path, makes)
        return file

    def get_many(self, paths: Sequence[str], makes: Sequence[bool]) -> builtins.list[File | None]:
        """As get(), for no more than there may be; None for what could not be opened now, of which get() tells."""
        for path in paths:
            if path in self._files:
                self._files.move_to_end(path)
        lacking = [(path, made) for path, made in zip(paths, makes, strict=True) if path not in self._files]
        if lacking:
            while self._files and len(self._files) + len(lacking) > self._limit:
                self._close_oldest()
            opened = self._disk.open_many([path for path, _ in lacking], [made for _, made in lacking])
            self._files |= {path: file for (path, _), file in zip(lacking, opened, strict=True) if file is not None}
        return [self._files.get(path) for path in paths]

    def _close_oldest(self) -> None:
        path, file = self._files.popitem(last=False)
        try:
            if self._before_close is not None:
                self._before_close(path, file)
        finally:
            file.close()

    def drop(self, path: str) -> None:
        """Close it if it is open: call before its path is renamed, unlinked or replaced."""
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()


class LockHolder(msgspec.Struct, frozen=True):
    """Who holds a data directory, as its lock file tells."""

    pid: int
    command: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command}) since {self.since}"


# Between taking the lock and writing its name into the file, a holder is there but has none.
UNNAMED_HOLDER = LockHolder(0, "starting", "just now")


class DirectoryLock:
    """A data directory belongs to this process until release() or its end, however it ends. A child made by fork does
    not inherit it. The lock file stays: unlinking it would let two processes lock two files of one name."""

    __slots__ = ("__weakref__", "_descriptor")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        _locks_of_process.add(self)

    @classmethod
    def acquire(cls, root: Path) -> DirectoryLock:
        """DirectoryInUse, at once, if another process (or another lock in this one) holds the directory."""
        mode = FILE_MODE | (_GROUP_FILE if _is_open_to_group(root) else 0)
        descriptor = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT, mode)
        try:
            if not _try_lock(descriptor):
                raise DirectoryInUse(str(root), str(_read_holder(descriptor)))
            _write_holder(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    @staticmethod
    def holder(root: Path) -> LockHolder | None:
        """Who holds the directory now, if anybody. Takes no lock, so that asking never makes a starting broker fail."""
        try:
            descriptor = os.open(root / LOCK_FILE, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return _read_holder(descriptor) if _is_locked(descriptor) else None
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Nothing of the directory may be written after this. Calling it again does nothing."""
        if self._descriptor >= 0:
            # Closing alone would not do while some child still has a copy of the descriptor.
            _unlock(self._descriptor)
            self.forget()

    def forget(self) -> None:
        """Close our descriptor without unlocking: what a forked child does with its parent's lock."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


_locks_of_process: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


class Following:
    """While there is one, the broker shows what is new soon: for processes that go on reading a directory, and may not
    write to it. It is a shared lock of a file that all of them read; the broker looks for it and takes none."""

    def __init__(self, root: Path) -> None:
        self._descriptor = _followed(root)
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):  # a file system without such locks: what is new is seen a little later
                _share(self._descriptor)

    def end(self) -> None:
        """Calling it again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Followers:
    """Whether there are any, asked by the broker."""

    def __init__(self, root: Path) -> None:
        self._descriptor = _followed(root)

    def are_there(self) -> bool:
        with contextlib.suppress(OSError):
            return self._descriptor >= 0 and _is_locked(self._descriptor)
        return False

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _followed(root: Path) -> int:
    """-1 where the file is lost, of which there is a copy: who follows sees what is new a little later then."""
    try:
        return os.open(root / _FOLLOWED_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return -1


def _forget_locks_of_parent() -> None:
    for lock in list(_locks_of_process):
        lock.forget()


os.register_at_fork(after_in_child=_forget_locks_of_parent)


def _write_holder(descriptor: int) -> None:
    holder = LockHolder(os.getpid(), " ".join(sys.argv), datetime.now(UTC).isoformat(timespec="seconds"))
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, msgspec.json.encode(holder) + b"\n", 0)


def _read_holder(descriptor: int) -> LockHolder:
    try:
        return msgspec.json.decode(os.pread(descriptor, 1 << 16, 0), type=LockHolder)
    except msgspec.DecodeError:
        return UNNAMED_HOLDER


if sys.platform == "linux":
    # A lock of the open file description: unlike a POSIX record lock it survives that some other code in this process
    # opens and closes the same file. struct flock: type, whence, start, length, pid; length 0 is to the end.
    _FLOCK = struct.Struct("@hhqqi0q")

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _share(descriptor: int) -> None:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))

    def _unlock(descriptor: int) -> None:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))

    def _is_locked(descriptor: int) -> bool:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind: int = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))[0]
        return kind != fcntl.F_UNLCK
else:
    # BSD keeps flock and record locks in one table, so F_GETLK sees a flock. struct flock: start, length, pid, type,
    # whence.
    _FLOCK = struct.Struct("@qqihh")

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _share(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _is_locked(descriptor: int) -> bool:
        asked = _FLOCK.pack(0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
        kind: int = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[3]
        return kind != fcntl.F_UNLCK
