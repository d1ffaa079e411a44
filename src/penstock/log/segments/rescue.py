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
from penstock.core.types import FilePosition, LogNumber, Sequence
from penstock.log.journal.frames import Entry
from penstock.log.journal.replay import JournalReader, entry_of
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.segments.aside import DIRECTORY, NOT_PUT_BACK, put_back, unused_path, write_aside
from penstock.log.segments.segment_files import SegmentFiles
from penstock.log.segments.segments import ActiveSegment, reopen, segment_path, written_version_after
from penstock.log.segments.written import WrittenLog
from penstock.log.upkeep.checkpoint import Checkpoint, LogState
from penstock.log.upkeep.faults import Telling, can_pass, memory

logger = logging.getLogger("penstock.log.rescue")

_COPY_BYTES = 1 << 20
telling = Telling(logger)


class Kept(Protocol):
    """What rescuing needs of the keeper."""

    checkpoint: Checkpoint
    taken_sequence: Sequence

    def replace(self, log: WrittenLog) -> None: ...
    def wait_for(self, log: WrittenLog) -> None: ...
    def stop_log(self, log: WrittenLog, reason: str) -> None: ...
    def checkpointed_state(self, number: LogNumber) -> LogState: ...


class Rescue:
    def __init__(self, disk: Disk, clock: Clock, files: SegmentFiles, keeper: Kept) -> None:
        self._disk, self._clock, self._files, self._keeper = disk, clock, files, keeper
        self._aside: dict[LogNumber, list[Entry]] = {}
        self.waiting: dict[LogNumber, OSError] = {}
        """logs that have to be written anew, with the reason: what they lack to be, can pass"""
        self.count = 0
        """logs that were written anew or stopped"""

    def put_back(self, log: WrittenLog) -> WrittenLog | None:
        """A stopped log as it was when it stopped, with all that was kept aside of it; it goes on with the journal.
        Nothing is written yet, and the files aside stay until a checkpoint does without them. None if not all of it can
        be read. OSError for a fault that can pass."""
        fresh = self._restored(log, self._keeper.checkpointed_state(log.number))
        try:
            with memory:
                damage = put_back(self._disk, fresh)
            reason = "" if damage is None else str(damage)
        except OSError as error:
            if can_pass(error):
                raise
            reason = str(error)
        log.reached = fresh.bounds
        if reason:
            log.reached.end = max(log.reached.end, log.base.aside_end if log.base is not None else 0)
            log.stopped = f"{_first_reason(log.stopped)}; {NOT_PUT_BACK}: {reason}"
            return None
        fresh.outlived += log.aside
        return fresh

    def mend(self, log: WrittenLog, error: OSError) -> None:
        """After a failed sync the page cache lies: trust the file up to the checkpoint, take the rest from the
        journal."""
        self.count += 1
        state = self._keeper.checkpointed_state(log.number)
        for path in log.paths():
            self._files.forget(path)
        try:
            with memory:
                mended = self._rebuilt(log, state)
        except OSError as again:
            if can_pass(again):
                self._wait(log, error, again)
            else:
                self._stop(log, error, f"{error}; writing it anew: {again}")
            return
        self.waiting.pop(log.number, None)
        self._keeper.replace(mended)
        gone = {*log.paths(), *log.outlived, *log.dropped, *mended.outlived}
        mended.outlived = sorted(gone - set(mended.paths()))
        logger.warning("log written anew log=%s end=%d", log.name, mended.bounds.end)

    def give_up(self, log: WrittenLog, error: OSError) -> None:
        """Its directory cannot be synced, so writing it anew would not help."""
        self.count += 1
        for path in log.paths():
            self._files.forget(path)
        self._stop(log, error, str(error))

    def postpone(self, log: WrittenLog, error: OSError) -> None:
        """The fold of the log broke off in the middle of an entry: from the next entry on it is left alone, and written
        anew when the frame has been taken."""
        self.waiting[log.number] = error
        self._keeper.wait_for(log)

    def mend_waiting(self, logs: dict[LogNumber, WrittenLog]) -> None:
        for number, error in list(self.waiting.items()):
            self.mend(logs[number], error)

    def forget(self, number: LogNumber) -> None:
        """The log was deleted."""
        self.waiting.pop(number, None)
        self._aside.pop(number, None)

    def _wait(self, log: WrittenLog, error: OSError, lack: OSError) -> None:
        """Its frames stay in the journal, and no checkpoint is written, until it could be written anew."""
        self.postpone(log, error)
        telling.warn("anew", "segment not written anew yet, tried again log=%s error=%s", log.name, lack)

    def keep_aside(self, log: WrittenLog, entry: Entry) -> None:
        """A stopped log's frames that were already on their way; in a synced file with the next checkpoint."""
        self._aside.setdefault(log.number, []).append(entry)
        if log.reached is not None:
            log.reached.take(entry.end, entry.edit)

    def sync(self, logs: dict[LogNumber, WrittenLog]) -> None:
        """Before a checkpoint: what is kept aside no longer needs the journal."""
        for number in list(self._aside):
            entries = self._aside[number]
            if entries and (log := logs.get(number)) is not None:
                path, size = self._write_aside(number, entries)
                log.aside, log.aside_bytes = (*log.aside, path), (*log.aside_bytes, size)
            del self._aside[number]

    def _rebuilt(self, log: WrittenLog, state: LogState) -> WrittenLog:
        version = written_version_after(max([log.next_version, *_versions(log.state()), *_versions(state)]))
        fresh = self._restored(log, state)
        fresh.next_version = version
        if state.active is not None and self._disk.exists(fresh.paths()[-1]):
            fresh.active = self._opened_anew(fresh.directory, state, version)
        try:
            self._fold_and_write(fresh, state)
        except (OSError, MemoryError):
            # On a full disk they take the room that is waited for.
            for path in [path for path in fresh.paths() if path in self._files.unsynced]:
                self._files.unlink(path)
            raise
        return fresh

    def _fold_and_write(self, fresh: WrittenLog, state: LogState) -> None:
        if fresh.active is not None and fresh.active.version != (state.active and state.active.version):
            self._copy(fresh.directory, state, fresh.active.path)
        if (damage := put_back(self._disk, fresh)) is not None:
            raise OSError(errno.EIO, f"{NOT_PUT_BACK}: {damage}")
        for entry in self._journal_entries(fresh.number):
            fresh.take(entry)
        fresh.flush()
        for path in fresh.paths():
            if path in self._files.unsynced:
                self._files.sync(path)

    def _restored(self, log: WrittenLog, state: LogState) -> WrittenLog:
        """As the checkpoint has it."""
        fresh = WrittenLog.restored(self._files, self._clock, log.name, log.settings, state)
        fresh.list_version = log.list_version + 1
        return fresh

    def _opened_anew(self, directory: str, state: LogState, version: int) -> ActiveSegment:
        """The trusted part of the active segment, under a new name; the bytes are still to come."""
        assert state.active is not None
        info = msgspec.structs.replace(state.active, version=version)
        return reopen(directory, info)

    def _copy(self, directory: str, state: LogState, target: str) -> None:
        assert state.active is not None
        info = state.active
        source = self._disk.open_read(segment_path(directory, info.base, info.version))
        try:
            self._files.create(target)
            for position in range(0, info.bytes, _COPY_BYTES):
                wanted = min(_COPY_BYTES, info.bytes - position)
                piece = source.read(FilePosition(position), wanted)
                if len(piece) < wanted:
                    raise OSError(errno.EIO, f"the file ends before byte {info.bytes}, which the checkpoint trusts")
                self._files.write(target, position, [piece], len(piece))
        finally:
            source.close()

    def _journal_entries(self, number: LogNumber) -> Iterator[Entry]:
        """What the journal holds of a log since the checkpoint, as far as it has been taken."""
        first = Sequence(self._keeper.checkpoint.first_sequence)
        frames = JournalReader(self._disk, first, first).frames()
        for frame in takewhile(lambda frame: frame.sequence < self._keeper.taken_sequence, frames):
            for log, kind, data in frame.entries:
                if log == number:
                    yield entry_of(log, kind, data)

    def _stop(self, log: WrittenLog, error: OSError, reason: str) -> None:
        if log.number == CATALOGUE_NUMBER:
            raise JournalFailed(f"the catalogue cannot be written: {reason}")
        try:
            with memory:
                entries = list(self._journal_entries(log.number))
        except OSError as lack:
            if not can_pass(lack):
                raise
            self._wait(log, error, lack)
            return
        state = self._keeper.checkpointed_state(log.number)
        stopped = self._restored(log, state)
        stopped.aside, stopped.aside_bytes = state.aside, state.aside_bytes
        stopped.base, stopped.reached = state, log.reached or log.bounds
        if entries or state.aside:
            # What is missing was taken away by an edit since the checkpoint, which is among what is kept aside.
            stopped.sealed = [segment for segment in stopped.sealed if self._disk.exists(segment.path)]
            if stopped.active is not None and not self._disk.exists(stopped.active.path):
                stopped.active = None
        self._aside[log.number] = entries
        self.waiting.pop(log.number, None)
        self._keeper.stop_log(stopped, reason)

    def _write_aside(self, number: LogNumber, entries: list[Entry]) -> tuple[str, int]:
        path = unused_path(self._disk, number, self._keeper.taken_sequence)
        size = write_aside(self._disk, path, entries)
        self._disk.sync_directory(DIRECTORY)
        self._disk.sync_directory("")
        return path, size


def _first_reason(stopped: str) -> str:
    """Why it was stopped, without what earlier openings found."""
    return stopped.partition(f"; {NOT_PUT_BACK}")[0]


def _versions(state: LogState) -> Iterator[int]:
    yield from (info.version for info in state.sealed)
    if state.active is not None:
        yield state.active.version
