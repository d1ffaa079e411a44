"""The segment files of a shard as the keeper uses them: bounded open files, and a list of what is still to be
synced."""

from __future__ import annotations

import errno
import logging
import resource
from collections.abc import Callable, Sequence

from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Buffer, Disk, File
from penstock.core.types import FilePosition
from penstock.log.disk import OpenFiles
from penstock.log.segments.index import index_path
from penstock.log.segments.segments import ActiveSegment
from penstock.log.upkeep.faults import Telling

logger = logging.getLogger("penstock.log.segments")
telling = Telling(logger)

# One syncfs costs about as much as ten syncs, and some 10 us a file: 1,000 files 11 ms, one by one 115 (ext4, 2026-11).
MANY_FILES = 64
_MOST_AT_ONCE = 512


class SegmentFiles:
    """Keeper thread only. A file that was written is in `unsynced` until sync() of it returned."""

    def __init__(self, disk: Disk, max_open: int, metrics: ShardMetrics, many: int = MANY_FILES) -> None:
        """From `many` unsynced files and directories on, they are synced with the whole file system. `max_open`: or
        half of what the process may open, if that is less."""
        self._many = many
        self.disk = disk
        self.unsynced: dict[str, int] = {}
        self.unsynced_directories: set[str] = set()
        self.failed: dict[str, OSError] = {}
        """files whose sync failed when they had to be closed to keep within the bound"""
        self.unlinked: Callable[[str], None] = lambda path: None
        """told of every segment that goes, so that nobody's map keeps its bytes on the disk"""
        self.leftovers: set[str] = set()
        """files, and directories with a slash behind them, that could not be removed"""
        max_open = min(max_open, _half_of_descriptors())
        self._open = OpenFiles(disk, max_open, self._sync_before_close)
        self._at_once = min(max_open, _MOST_AT_ONCE)
        self.metrics = metrics

    def create(self, path: str) -> None:
        """A file left by a crash is written over in place: an outside reader may be in the middle of it."""
        self.disk.make_directory(path.rpartition("/")[0])
        self._open.get(path, makes=True)
        self._created(path)

    def _created(self, path: str) -> None:
        directory = path.rpartition("/")[0]
        self.leftovers -= {path, f"{directory}/"}
        self.unsynced[path] = 0
        self.directory_changed(directory)

    def write(self, path: str, position: int, buffers: Sequence[Buffer], size: int) -> None:
        file = self._open.get(path)
        if position and file.size() < position:
            raise OSError(errno.EIO, f"the file is shorter than the {position} bytes that were written to it", path)
        file.write(FilePosition(position), buffers)
        self._wrote(path, size)

    def _wrote(self, path: str, size: int) -> None:
        self.unsynced[path] = self.unsynced.get(path, 0) + size
        self.metrics.segment_bytes += size

    def write_many(self, segments: Sequence[ActiveSegment]) -> None:
        """What can be written of them without ado. Of the others create() and write() tell what is in the way."""
        for first in range(0, len(segments), self._at_once):
            some = segments[first : first + self._at_once]
            files = self._open.get_many([one.path for one in some], [not one.exists for one in some])
            found = [(one, file) for one, file in zip(some, files, strict=True) if file is not None]
            for one, _ in found:
                if not one.exists:
                    self._created(one.path)
                    one.exists = True
            writes = [(file, FilePosition(one.written_bytes), one.pending_data) for one, file in found]
            for (one, _), is_written in zip(found, self.disk.write_many(writes), strict=True):
                if is_written:
                    self._wrote(one.path, one.pending_bytes)
                    one.written()

    def truncate(self, path: str, size: int) -> None:
        self._open.get(path).truncate(size)
        self.unsynced.setdefault(path, 0)

    def sync(self, path: str) -> None:
        """When this returns, all that was written to the file is durable. SyncFailed, or what kept the file from being
        opened, leaves it in `unsynced`."""
        if (error := self.failed.pop(path, None)) is not None:
            raise error
        self._open.get(path).sync()
        self.unsynced.pop(path, None)
        self.metrics.segment_syncs += 1

    def directory_changed(self, directory: str) -> None:
        """To be synced with the next checkpoint, and those above it: one that waits has them waiting too."""
        while directory not in self.unsynced_directories:
            self.unsynced_directories.add(directory)
            directory = directory.rpartition("/")[0]

    def sync_directory(self, directory: str) -> None:
        """One that failed counts as done, since a later sync that succeeds says nothing of the entries before it: who
        calls this must do without them."""
        self.unsynced_directories.discard(directory)
        if self.disk.exists(directory):
            self.disk.sync_directory(directory)

    def sync_together(self) -> bool:
        """Everything at once, where many wait. False: nothing is known, sync them one by one."""
        if self.failed or len(self.unsynced) + len(self.unsynced_directories) < self._many:
            return False
        try:
            if not self.disk.sync_all():
                return False
        except OSError:
            return False  # which file it was, its own sync will say
        self.unsynced.clear()
        self.unsynced_directories.clear()
        self.metrics.segment_syncs += 1
        return True

    def map(self, path: str) -> memoryview:
        file = self.disk.open_read(path)
        try:
            return file.map()
        finally:
            file.close()

    def unlink(self, path: str) -> None:
        """A segment, with its index. What cannot be removed now is by clear_leftovers()."""
        self.forget(path)
        self.unlinked(path)
        try:
            self.disk.unlink(path)
            self.disk.unlink(index_path(path))
        except OSError as error:
            self._leave(path, error)
        self.directory_changed(path.rpartition("/")[0])

    def remove_directory(self, directory: str) -> None:
        """With what lies beside the segments: indexes and the list for outside readers. A compaction under way may be
        making a file in it; whoever discards that removes the directory too."""
        try:
            for name in self.disk.list(directory):
                self.disk.unlink(f"{directory}/{name}")
            self.disk.remove_directory(directory)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                self._leave(f"{directory}/", error)
        self.unsynced_directories.discard(directory)
        self.directory_changed(directory.rpartition("/")[0])

    def clear_leftovers(self) -> None:
        """Try again to remove what could not be."""
        leftovers, self.leftovers = self.leftovers, set()
        for path in sorted(leftovers):
            self.remove_directory(path[:-1]) if path.endswith("/") else self.unlink(path)

    def _leave(self, path: str, error: OSError) -> None:
        """It takes room and is in nobody's way."""
        self.leftovers.add(path)
        telling.warn("unlink", "file not removed yet, tried again file=%s error=%s", path, error)

    def forget(self, path: str) -> None:
        """Close it; what was written to it no longer matters."""
        self._open.drop(path)
        self.unsynced.pop(path, None)
        self.failed.pop(path, None)

    def close(self) -> None:
        self._open.close()

    def _sync_before_close(self, path: str, file: File) -> None:
        """A write-back error that comes after the last descriptor was closed would be reported to nobody."""
        if path not in self.unsynced or path in self.failed:
            return  # one that failed stays unsynced: a later sync that succeeds says nothing of the writes before it
        if self.sync_together():
            return
        try:
            file.sync()
        except OSError as error:
            self.failed[path] = error
        else:
            del self.unsynced[path]


def _half_of_descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(soft // 2, 1)
