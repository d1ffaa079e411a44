"""`core.ports.Disk` in memory, with crashes, failing calls and a capacity: seeded and deterministic, and fast enough
for thousands of crashes a minute. What a crash may leave is told in medium.py."""

from __future__ import annotations

import builtins
import errno
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.support.medium import Aftermath, Copy, Directory, EntryChange, Inode, Node, Truncate, Write, inodes

from penstock.core.ports import Buffer, File
from penstock.core.types import FilePosition
from penstock.log.disk import relative_parts
from penstock.log.upkeep.faults import SyncFailed

UNLIMITED_BYTES = 1 << 40

Names = builtins.list[str]
T = TypeVar("T")


class SimulatedCrash(BaseException):
    """The machine is off: not an Exception, so that no handler of errors goes on as if it were one."""


@dataclass(slots=True)
class Fault:
    operation: str
    path_part: str
    error: OSError
    times: int


class SimFile:
    """An open file of a SimDisk."""

    def __init__(self, disk: SimDisk, path: str, inode: Inode, writable: bool) -> None:
        self._disk, self.path, self._inode, self._writable, self._open = disk, path, inode, writable, True

    def _readable(self) -> Inode:
        if not self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        return self._inode

    def _changeable(self) -> Inode:
        if not self._writable:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        return self._readable()

    def write(self, position: FilePosition, buffers: Sequence[Buffer]) -> None:
        self._put("write", position, b"".join(buffers))

    def _put(self, call: str, position: int, data: bytes) -> None:
        """The whole, or a part of it and then the error or the crash."""
        inode, disk = self._changeable(), self._disk
        stop = disk.interruption(call, self.path)
        fitting = disk.fitting_bytes(inode, position, len(data))
        if stop is not None:
            data = data[: disk.rng.randrange(fitting + 1)]
        elif fitting < len(data):
            data, stop = data[:fitting], OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        if data:
            inode.change(Write(position, data), disk.rng)
        if stop is not None:
            raise stop

    def read(self, position: FilePosition, size: int) -> bytes:
        return bytes(self._readable().now[position : position + size])

    def sync(self) -> None:
        inode, disk = self._readable(), self._disk
        stop = disk.interruption("sync", self.path)
        if isinstance(stop, OSError):
            inode.fail_sync(disk.rng)
        if stop is not None:
            raise stop
        inode.sync(disk.rng)

    def begin_writing_back(self, start: int, stop: int) -> None:
        """Nothing is durable by that."""

    await_written_back = begin_writing_back

    def size(self) -> int:
        return len(self._readable().now)

    def truncate(self, size: int) -> None:
        inode = self._changeable()
        self._disk.begin("truncate", self.path)
        inode.change(Truncate(size), self._disk.rng)

    def allocate(self, size: int) -> None:
        position = self.size()
        self._put("allocate", position, bytes(max(size - position, 0)))
        self._inode.sync(self._disk.rng)

    def map(self) -> memoryview:
        """A copy: unlike a real map it does not show later writes, nor does a later truncation take it away."""
        return memoryview(bytes(self._readable().now))

    def close(self) -> None:
        self._open = False


class SimDisk:
    """`calls` counts the calls that change something, failed ones too. `crash_at = n` makes the n-th raise
    SimulatedCrash, before it did anything or, if it writes, somewhere inside it; from then on every such call raises
    it. With `capacity_bytes` a write fills the disk and then fails; an unlinked file frees its space at once.

    `any_subset_of_entries` lets each unsynced change of a directory survive alone, where ext4 keeps their order."""

    def __init__(
        self, seed: int = 0, *, any_subset_of_entries: bool = False, capacity_bytes: int | None = None
    ) -> None:
        self.rng = random.Random(seed)
        self.any_subset_of_entries = any_subset_of_entries
        self.capacity_bytes = capacity_bytes
        self.calls = 0
        self.crash_at: int | None = None
        self._off = False
        self._faults: builtins.list[Fault] = []
        self._root = Directory()

    def crash(self, rng: random.Random) -> SimDisk:
        """A new disk: what this one may hold after a power cut now, all of it durable. This one stays as it is, so that
        many crashes can be tried from the same moment."""
        after = self._successor(rng.getrandbits(64))
        after._root = Aftermath(rng, self.any_subset_of_entries).directory(self._root)
        return after

    def kill(self) -> SimDisk:
        """A new disk, as after kill -9: everything written is there, and what was not synced still is not."""
        after = self._successor(self.rng.getrandbits(64))
        after._root = Copy().directory(self._root)
        return after

    def _successor(self, seed: int) -> SimDisk:
        return SimDisk(seed, any_subset_of_entries=self.any_subset_of_entries, capacity_bytes=self.capacity_bytes)

    def fail(self, operation: str, path_part: str, error: OSError, times: int = 1) -> None:
        """The next `times` calls of that name (`write`, `sync`, `rename`, `open`, …) on a path containing path_part
        raise the error. A failed write or allocate has written some part; after a failed sync what was unsynced counts
        as clean, though only some of it, by chance, reached the medium."""
        self._faults.append(Fault(operation, path_part, error, times))

    def heal(self) -> None:
        """No call fails any more, no crash is due, and there is room."""
        self._faults, self.crash_at, self.capacity_bytes = [], None, None

    def interruption(self, call: str, *paths: str) -> OSError | SimulatedCrash | None:
        """Counts a call, and tells what is to stop it."""
        if self._off:
            raise SimulatedCrash(f"{call} {paths[0]!r} after the crash at call {self.calls}")
        self.calls += 1
        if self.crash_at is not None and self.calls >= self.crash_at:
            self._off = True
            return SimulatedCrash(f"at call {self.calls}, {call} {paths[0]!r}")
        return self._fault(call, *paths)

    def _fault(self, call: str, *paths: str) -> OSError | None:
        for fault in self._faults:
            if fault.times and fault.operation == call and any(fault.path_part in path for path in paths):
                fault.times -= 1
                kind = SyncFailed if call in ("sync", "sync_directory") else OSError
                return kind(fault.error.errno, fault.error.strerror, paths[0])
        return None

    def begin(self, call: str, *paths: str) -> None:
        if (stop := self.interruption(call, *paths)) is not None:
            raise stop

    def fitting_bytes(self, inode: Inode, position: int, size: int) -> int:
        """How much of a write there is room for; what lies inside the file needs none."""
        if self.capacity_bytes is None:
            return size
        return max(0, min(size, len(inode.now) + self.free_bytes() - position))

    def _find(self, path: str) -> Node:
        node: Node = self._root
        for name in relative_parts(path):
            if isinstance(node, Inode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            if name not in node.now:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = node.now[name]
        return node

    def _file(self, path: str) -> Inode:
        node = self._find(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._find(path)
        if isinstance(node, Inode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        parts = relative_parts(path)
        if not parts:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return self._directory("/".join(parts[:-1])), parts[-1]

    def _refuse_open(self, path: str) -> None:
        """Opening changes nothing, so that it is no call to crash at; but it can fail, as if descriptors lacked."""
        if (fault := self._fault("open", path)) is not None:
            raise fault

    def open(self, path: str, makes: bool = False) -> SimFile:
        self._refuse_open(path)
        if makes and not self.exists(path):
            return self.create(path)
        return SimFile(self, path, self._file(path), writable=True)

    def open_many(self, paths: Sequence[str], makes: Sequence[bool]) -> builtins.list[File | None]:
        return [self._by_chance(self._opened, path, made) for path, made in zip(paths, makes, strict=True)]

    def write_many(self, writes: Sequence[tuple[File, FilePosition, builtins.list[Buffer]]]) -> builtins.list[bool]:
        return [bool(self._by_chance(self._is_written, *write)) for write in writes]

    def _by_chance(self, call: Callable[..., T], *arguments: object) -> T | None:
        """Some of many calls work. Not while a fault is due: single calls meet it."""
        if any(fault.times for fault in self._faults) or self.rng.random() < 0.5:
            return None
        try:
            return call(*arguments)
        except OSError:
            return None

    def _opened(self, path: str, makes: bool) -> SimFile:
        if makes:
            self.make_directory(path.rpartition("/")[0])
        return self.open(path, makes)

    def _is_written(self, file: File, position: FilePosition, buffers: Sequence[Buffer]) -> bool:
        if position > file.size():
            return False
        file.write(position, buffers)
        return True

    def open_read(self, path: str) -> SimFile:
        self._refuse_open(path)
        return SimFile(self, path, self._file(path), writable=False)

    def create(self, path: str) -> SimFile:
        parent, name = self._parent(path)
        if name in parent.now:
            inode = self._file(path)
            self.begin("create", path)
            inode.change(Truncate(0), self.rng)
        else:
            self.begin("create", path)
            inode = Inode()
            parent.change(EntryChange(come=name, node=inode))
        return SimFile(self, path, inode, writable=True)

    def exists(self, path: str) -> bool:
        try:
            self._find(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def list(self, path: str) -> Names:
        try:
            return sorted(self._directory(path).now)
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        self.begin("make_directory", path)
        directory = self._root
        for name in relative_parts(path):
            node = directory.now.get(name)
            if isinstance(node, Inode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            if node is None:
                node = Directory()
                directory.change(EntryChange(come=name, node=node))
            directory = node

    def remove_directory(self, path: str) -> None:
        self.begin("remove_directory", path)
        if not self.exists(path):
            return
        parent, name = self._parent(path)
        if self._directory(path).now:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        parent.change(EntryChange(gone=name))

    def rename(self, old: str, new: str) -> None:
        node = self._find(old)
        (source, old_name), (target, new_name) = self._parent(old), self._parent(new)
        self.begin("rename", old, new)
        replaced = target.now.get(new_name)
        if replaced is node:
            return
        if isinstance(replaced, Directory) and (isinstance(node, Inode) or replaced.now):
            raise OSError(errno.EISDIR if isinstance(node, Inode) else errno.ENOTEMPTY, "cannot be replaced", new)
        if source is target:
            source.change(EntryChange(old_name, new_name, node))
        else:
            target.change(EntryChange(come=new_name, node=node))
            source.change(EntryChange(gone=old_name))

    def unlink(self, path: str) -> None:
        self.begin("unlink", path)
        if self.exists(path):
            self._file(path)
            parent, name = self._parent(path)
            parent.change(EntryChange(gone=name))

    def link(self, old: str, new: str) -> None:
        inode, (parent, name) = self._file(old), self._parent(new)
        if name in parent.now:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        self.begin("link", old, new)
        parent.change(EntryChange(come=name, node=inode))

    def sync_directory(self, path: str) -> None:
        directory = self._directory(path)
        self._refuse_open(path)
        stop = self.interruption("sync_directory", path)
        if isinstance(stop, OSError):
            directory.fail_sync(self.rng, self.any_subset_of_entries)
        if stop is not None:
            raise stop
        directory.sync()

    def watch(self) -> None:
        """Nothing: it forgets no error."""

    def sync_all(self) -> bool:
        """Not while a fault is due: which file it is for, only single syncs can tell."""
        if any(fault.times for fault in self._faults):
            return False
        self.begin("sync_all", "")
        self._sync_tree(self._root)
        return True

    def _sync_tree(self, directory: Directory) -> None:
        directory.sync()
        for node in directory.now.values():
            if isinstance(node, Directory):
                self._sync_tree(node)
            else:
                node.sync(self.rng)

    def free_bytes(self) -> int:
        used = 0 if self.capacity_bytes is None else sum(len(inode.now) for inode in inodes(self._root))
        return max(0, self.total_bytes() - used)

    def total_bytes(self) -> int:
        return UNLIMITED_BYTES if self.capacity_bytes is None else self.capacity_bytes
