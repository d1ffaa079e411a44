"""When a segment file fails: the log is written anew from its checkpoint and the journal, or stopped with its frames
kept aside."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from itertools import takewhile
from typing import Protocol

import msgspec

from penstock.core.errors import JournalFailed
from penstock.core.ports import Clock, Disk
from penstock.core.types import Durability, FilePosition, Generation, LogNumber, Sequence
from penstock.log.checkpoint import Checkpoint, LogState
from penstock.log.frames import Entry, Frame, encode_frame, frame_bytes
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.records import SegmentInfo
from penstock.log.replay import JournalReader, entry_of
from penstock.log.segment_files import SegmentFiles
from penstock.log.segments import reopen, segment_path, written_version_after
from penstock.log.written import WrittenLog

logger = logging.getLogger("penstock.log.rescue")

DIRECTORY = "aside"
_COPY_BYTES = 1 << 20


class Kept(Protocol):
    """What rescuing needs of the keeper."""

    checkpoint: Checkpoint
    taken_sequence: Sequence

    def replace(self, log: WrittenLog) -> None: ...
    def stop_log(self, log: WrittenLog, reason: str) -> None: ...
    def checkpointed_state(self, number: LogNumber) -> LogState: ...


class Rescue:
    def __init__(self, disk: Disk, clock: Clock, files: SegmentFiles, keeper: Kept) -> None:
        self._disk, self._clock, self._files, self._keeper = disk, clock, files, keeper
        self._aside: dict[LogNumber, list[Entry]] = {}
        self.count = 0
        """logs that were written anew or stopped"""

    def mend(self, log: WrittenLog, error: OSError) -> None:
        """After a failed sync the page cache lies: trust the file up to the checkpoint, take the rest from the
        journal."""
        self.count += 1
        state = self._keeper.checkpointed_state(log.number)
        for path in log.paths():
            self._files.forget(path)
        try:
            mended = self._rebuilt(log, state)
        except OSError as again:
            self._stop(log, state, f"{error}; writing it anew: {again}")
            return
        self._keeper.replace(mended)
        gone = {*log.paths(), *log.outlived, *log.dropped, *mended.outlived}
        mended.outlived = sorted(gone - set(mended.paths()))
        logger.warning("log written anew log=%s end=%d", log.name, mended.bounds.end)

    def give_up(self, log: WrittenLog, error: OSError) -> None:
        """Its directory cannot be synced, so writing it anew would not help."""
        self.count += 1
        for path in log.paths():
            self._files.forget(path)
        self._stop(log, self._keeper.checkpointed_state(log.number), str(error))

    def keep_aside(self, log: WrittenLog, entry: Entry) -> None:
        """A stopped log's frames that were already on their way; in a synced file with the next checkpoint."""
        self._aside.setdefault(log.number, []).append(entry)

    def sync(self, logs: dict[LogNumber, WrittenLog]) -> None:
        """Before a checkpoint: what is kept aside no longer needs the journal."""
        for number in list(self._aside):
            entries = self._aside[number]
            if (log := logs.get(number)) is not None:
                log.aside = (*log.aside, self._write_aside(number, entries))
            del self._aside[number]

    def _rebuilt(self, log: WrittenLog, state: LogState) -> WrittenLog:
        version = written_version_after(max([log.next_version, *_versions(log.state()), *_versions(state)]))
        fresh = WrittenLog.restored(self._files, self._clock, log.name, log.settings, state)
        fresh.next_version, fresh.list_version = version, log.list_version + 1
        if state.active is not None and self._disk.exists(fresh.paths()[-1]):
            info = self._copy(fresh.directory, state, version)
            fresh.active = reopen(fresh.directory, info, self._clock.monotonic())
        for entry in self._journal_entries(log.number):
            fresh.take(entry)
        fresh.flush()
        for path in fresh.paths():
            if path in self._files.unsynced:
                self._files.sync(path)
        return fresh

    def _copy(self, directory: str, state: LogState, version: int) -> SegmentInfo:
        """The trusted part of the active segment, under a new name."""
        assert state.active is not None
        info = msgspec.structs.replace(state.active, version=version)
        source = self._disk.open_read(segment_path(directory, info.base, state.active.version))
        target = segment_path(directory, info.base, version)
        self._files.create(target)
        try:
            for position in range(0, info.bytes, _COPY_BYTES):
                wanted = min(_COPY_BYTES, info.bytes - position)
                piece = source.read(FilePosition(position), wanted)
                if len(piece) < wanted:
                    raise OSError(errno.EIO, f"the file ends before byte {info.bytes}, which the checkpoint trusts")
                self._files.write(target, position, [piece], len(piece))
        finally:
            source.close()
        return info

    def _journal_entries(self, number: LogNumber) -> Iterator[Entry]:
        """What the journal holds of a log since the checkpoint, as far as it has been taken."""
        first = Sequence(self._keeper.checkpoint.first_sequence)
        frames = JournalReader(self._disk, first, first).frames()
        for frame in takewhile(lambda frame: frame.sequence < self._keeper.taken_sequence, frames):
            for log, kind, data in frame.entries:
                if log == number:
                    yield entry_of(log, kind, data)

    def _stop(self, log: WrittenLog, state: LogState, reason: str) -> None:
        if log.number == CATALOGUE_NUMBER:
            raise JournalFailed(f"the catalogue cannot be written: {reason}")
        stopped = WrittenLog.restored(self._files, self._clock, log.name, log.settings, state)
        entries = list(self._journal_entries(log.number))
        if any(entry.edit is not None for entry in entries):
            # What is missing was taken away by an edit since the checkpoint, which is among what is kept aside.
            stopped.sealed = [segment for segment in stopped.sealed if self._disk.exists(segment.path)]
            if stopped.active is not None and not self._disk.exists(stopped.active.path):
                stopped.active = None
        stopped.list_version = log.list_version + 1
        self._aside[log.number] = entries
        self._keeper.stop_log(stopped, reason)

    def _write_aside(self, number: LogNumber, entries: list[Entry]) -> str:
        path = write_aside(self._disk, f"{DIRECTORY}/{number}.{self._keeper.taken_sequence}", entries)
        self._disk.sync_directory(DIRECTORY)
        self._disk.sync_directory("")
        return path


def write_aside(disk: Disk, path: str, entries: list[Entry]) -> str:
    """A frame for each entry, in a file that is synced; syncing its directory is the caller's. The path, again."""
    disk.make_directory(path.rpartition("/")[0])
    file = disk.create(path)
    position = 0
    for sequence, entry in enumerate(entries):
        frame = Frame(Sequence(sequence), Durability.COMMIT, [entry], frame_bytes([entry]))
        file.write(FilePosition(position), encode_frame(frame, Generation(0), Sequence(0)))
        position += frame.bytes
    file.sync()
    file.close()
    return path


def _versions(state: LogState) -> Iterator[int]:
    yield from (info.version for info in state.sealed)
    if state.active is not None:
        yield state.active.version
