"""The keeper: writes segments behind the journal, syncs them in small steps, writes checkpoints, lets the journal
go."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Clock, Disk
from penstock.core.types import LogName, LogNumber, Sequence
from penstock.kernels.folded import fold
from penstock.log.catalogue import Catalogue, changes
from penstock.log.journal.frames import Entry, Frame
from penstock.log.journal.journal import Journal
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.records import Declared, EpochStart
from penstock.log.segments.rescue import Rescue
from penstock.log.segments.segment_files import MANY_FILES, SegmentFiles
from penstock.log.segments.segments import WrittenView
from penstock.log.segments.written import WrittenLog
from penstock.log.upkeep.checkpoint import Checkpoint, LogState, write_checkpoint
from penstock.log.upkeep.faults import Telling, can_pass, memory

logger = logging.getLogger("penstock.log.keeper")
telling = Telling(logger)

# Between two tries to write a log anew that could not be.
_MEND_S = 1.0
# Of the rest between two moves of the cut, which flush_share sets: a fifth of the time is spent on writing then.
_ASKED_REST = 0.25
# Where writing takes so long that the next move is further away, who asks is told at once and looks again later.
_ASKED_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class KeeperOptions:
    flush_bytes: int = 64 << 10
    flush_s: float = 0.2
    # While somebody follows the directory from another process: as soon as something came, and at most this often.
    followed_flush_s: float = 0.005
    # Thousands of small files take 0.1 ms each to open, write and close: seldom, so that the loop has the processor.
    flush_share: float = 0.05
    flush_all_bytes: int = 16 << 20
    # For each file that is to be written, where that is more: else 50,000 files are opened for a message each.
    flush_file_bytes: int = 4 << 10
    flush_most_bytes: int = 96 << 20
    # Syncing 64 MiB at once pushes the journal's p99.9 from 1 to 12 ms, in 4 MiB steps to 6: measured, ext4.
    sync_step_bytes: int = 4 << 20
    checkpoint_bytes: int = 128 << 20
    checkpoint_s: float = 30.0
    # A file that is closed to make room is synced first, and opened again for the next batch: with 1,000 logs and
    # room for half of them the keeper fell behind until publishes had to wait for it.
    max_open_files: int = 4096
    sync_together_files: int = MANY_FILES


@dataclass(frozen=True, slots=True)
class Written:
    """What the keeper tells the loop: logs whose segments hold what frames below `sequence` brought them, and logs it
    gave up."""

    logs: list[LogNumber]
    sequence: Sequence
    stopped: dict[LogNumber, str]


class Keeper:
    """One thread. Everything it takes is durable in the journal; what it writes is trusted from the next checkpoint
    on."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        options: KeeperOptions,
        metrics: ShardMetrics,
        files: SegmentFiles,
        start: Checkpoint,
        logs: dict[LogNumber, WrittenLog],
        catalogue: Catalogue,
        next_sequence: Sequence,
    ) -> None:
        self._disk, self._clock, self._options, self._metrics, self.files = disk, clock, options, metrics, files
        self._catalogue = catalogue
        self.logs = logs
        self.views: dict[LogNumber, WrittenView] = {number: log.view() for number, log in logs.items()}
        """read by others; each view is replaced as a whole"""
        self.checkpoint = start
        """the one on disk"""
        self.inbox: deque[Frame] = deque()
        """frames the journal has synced, in order"""
        self.taken_sequence = next_sequence
        """first frame not folded yet"""
        self.asked: deque[Callable[[], None]] = deque()
        """by those who want the cut moved now: called when it was, or could not be"""
        self.tell: Callable[[Written], None] = lambda written: None
        self.publish_cut: Callable[[Iterable[WrittenLog]], None] = lambda logs: None
        self.deleted: Callable[[LogNumber], None] = lambda number: None
        self.is_followed: Callable[[], bool] = lambda: False
        """whether processes that cannot ask wait for the cut"""
        self._has_followers = False
        self.wants_ring = False
        """whether it is to be told of the next frame at once, as somebody follows"""
        self.journal: Journal | None = None
        self.largest_commit = start.largest_commit
        """of all that were ever staged, in bytes, not compressed"""
        self._dirty: dict[LogNumber, WrittenLog] = {}
        """have bytes that are not in their files"""
        self._large: list[WrittenLog] = []
        """of those, the ones that have so many that they are not to wait; some may be there twice, or without need"""
        self._changed: dict[LogNumber, WrittenLog] = {}
        """changed since the last published cut"""
        self.held: frozenset[LogNumber] = frozenset()
        """logs that a checkpoint alone writes, see Engine.hold_back(); replaced as a whole, by the loop"""
        self.is_room_wanted = False
        """what was held until now is not to wait any longer"""
        self.going: list[WrittenLog] = []
        """deleted since then: their files are still there"""
        self._touched: dict[LogNumber, WrittenLog] = {}
        """changed since the checkpoint"""
        self._states = {LogNumber(state.number): state for state in start.logs}
        self.checkpoint_wanted = threading.Event()
        self.free_bytes = disk.free_bytes()
        """of the disk, when it was last looked at"""
        self._taken_bytes = 0
        self._unflushed_bytes = 0
        self._last_checkpoint = clock.monotonic()
        self._looked_s = self._last_checkpoint
        """for segments to be sealed"""
        self._next_flush = self._last_checkpoint + options.flush_s
        self._flushed = self._rested = self._last_checkpoint
        """when the files were written for so little of the time that somebody may ask for it again"""
        self._rescue = Rescue(disk, clock, files, self)
        self._stopped: dict[LogNumber, str] = {}
        self._not_synced = 0
        """segments whose sync failed"""
        self._next_mend = -inf

    def step(self) -> None:
        """Take what has come, write what is due, checkpoint if due. Called again and again, at least every flush_s."""
        asked, now = len(self.asked), self._clock.monotonic()
        self._has_followers = self.is_followed()
        # Before the inbox is looked at: what comes behind that look rings, or the next one has its time already.
        self.wants_ring = self._has_followers and now >= self._followed_due
        self._take_inbox()
        if self.is_room_wanted:
            self.is_room_wanted, self._next_flush = False, -inf
        is_awaited = self._has_followers and len(self._changed) > sum(number in self._changed for number in self.held)
        self.wants_ring = self.wants_ring and not is_awaited
        due = self._asked_due if asked else self._followed_due if is_awaited else self._next_flush
        if now >= due or self._unflushed_bytes >= self._most_unflushed_bytes:
            self.flush_all()
        else:
            self._flush_large()
            asked *= due > now + _ASKED_WAIT_S
        for _ in range(asked):
            self.asked.popleft()()
        self._sync_steps()
        if self._is_checkpoint_due(now):
            self.write_checkpoint()
        if self.journal is not None:
            self.journal.prepare()

    @property
    def _most_unflushed_bytes(self) -> int:
        options = self._options
        wanted = min(len(self._dirty) * options.flush_file_bytes, options.flush_most_bytes)
        return max(options.flush_all_bytes, wanted)

    @property
    def _asked_due(self) -> float:
        """Who asks waits until what they asked for is there: no longer than need be."""
        return min(self._next_flush, self._flushed + (self._rested - self._flushed) * _ASKED_REST)

    @property
    def _followed_due(self) -> float:
        """Who follows is shown what is new as often as if they asked again and again."""
        return min(self._next_flush, max(self._flushed + self._options.followed_flush_s, self._asked_due))

    @property
    def pause_s(self) -> float:
        """Until the next step, if nobody rings."""
        if not self.asked and (self.wants_ring or not self._has_followers):
            return self._options.flush_s
        return max(0.0, (self._asked_due if self.asked else self._followed_due) - self._clock.monotonic())

    def flush_all(self, *, with_held: bool = False) -> None:
        """Move the cut: every frame taken so far is in the segment files afterwards, unless the disk is full; of logs
        that are held only if that is asked for."""
        begun, self._unflushed_bytes, self._large = self._clock.monotonic(), 0, []
        self._mend_waiting(begun)
        self._flush([log for number, log in self._dirty.items() if with_held or number not in self.held])
        took_s = self._clock.monotonic() - begun
        self._flushed, self._rested = begun, begun + took_s / self._options.flush_share
        self._next_flush = max(begun + self._options.flush_s, self._rested)
        is_shown = not self._rescue.waiting and self._dirty.keys() <= self.held and self._is_cut_published()
        # Where the disk is full and the cut stands still, room is worth more than readers who have to look again.
        self._remove_files()
        if is_shown:
            self._changed = {number: log for number, log in self._changed.items() if number in self._dirty}

    def _is_cut_published(self) -> bool:
        try:
            with memory:
                self.publish_cut(self._changed.values())
        except OSError as error:
            telling.warn("cut", "readers in other processes are not shown what is new yet error=%s", error)
            return False
        return True

    def _remove_files(self) -> None:
        """Of what readers know to be gone."""
        self.files.clear_leftovers()
        for log in self._changed.values():
            log.unlink_dropped()
        gone, self.going = self.going, []
        for log in gone:
            self.deleted(log.number)
            log.remove_files()

    def _mend_waiting(self, now: float) -> None:
        if self._rescue.waiting and now >= self._next_mend:
            self._next_mend = now + _MEND_S
            self._rescue.mend_waiting(self.logs)

    def write_checkpoint(self, *, clean: bool = False) -> bool:
        """Everything taken so far is trusted in its segments once this returned True; the journal before it is free."""
        begun = self._clock.monotonic()
        self._seal_due()
        self._take_inbox()
        self.flush_all(with_held=True)
        if self.has_unwritten:
            return False  # a full disk: the journal keeps what is not written
        rescued, captured, taken_bytes = self._rescue.count, self._touched, self._taken_bytes
        unsynced = self._not_synced
        try:
            self._rescue.sync(self.logs)
            with memory:
                checkpoint, self._touched = self._capture(clean), {}
            outlived = [(log, len(log.outlived)) for log in captured.values()]
            if not self.files.sync_together():
                self._sync_segments(list(self.files.unsynced), self._breathe)
                self._sync_directories()
            if self._rescue.count != rescued:
                raise InterruptedError("a segment had to be written again meanwhile")
            if self._not_synced != unsynced:
                # An edit may have taken it away since the capture, which names it all the same.
                raise InterruptedError("a segment was not synced")
            with memory:
                write_checkpoint(self._disk, checkpoint)
        except OSError as error:
            self._touched = captured | self._touched
            telling.warn("checkpoint", "checkpoint put off, the old one stands error=%s", error)
            return False
        self._states = {LogNumber(state.number): state for state in checkpoint.logs}
        self.checkpoint = checkpoint
        self._taken_bytes -= taken_bytes
        for log, count in outlived:
            log.unlink_outlived(count)
        self._let_go(begun)
        return True

    @property
    def has_unwritten(self) -> bool:
        """Whether something that was taken is in no file yet."""
        return bool(self._dirty or self._rescue.waiting)

    @property
    def unfolded(self) -> Mapping[LogNumber, OSError]:
        """Logs that are not as far as the others, and why: they are going to be written anew."""
        return self._rescue.waiting

    def put_back_aside(self) -> list[WrittenLog]:
        """At opening, before the journal is folded: what was kept aside of stopped logs is theirs again, and is written
        with whatever the journal brings. The logs; one of which not all can be read stays stopped. Crash where it may:
        until a checkpoint names the segments instead, the files aside stay and this begins anew."""
        found = []
        for log in [log for log in self.logs.values() if log.stopped]:
            if (fresh := self._rescue.put_back(log)) is not None:
                number = fresh.number
                self.logs[number] = self._touched[number] = self._changed[number] = self._dirty[number] = fresh
                found.append(fresh)
        return found

    def make_space(self) -> None:
        """The journal is full: free some of it. With threads, the shard puts a waiting version in this place."""
        if not self.write_checkpoint():
            raise OSError(errno.ENOSPC, "the journal is full and no checkpoint can be written")

    def close(self) -> None:
        self.files.close()

    def stop_log(self, log: WrittenLog, reason: str) -> None:
        """The log takes no more records; the loop is told."""
        log.stopped = reason
        self.replace(log)
        self._stopped[log.number] = reason
        self._metrics.logs_stopped += 1
        logger.error("log stopped log=%s reason=%s", log.name, reason)

    def replace(self, log: WrittenLog) -> None:
        """Another fold of the same log takes its place."""
        self.logs[log.number] = self._touched[log.number] = self._changed[log.number] = log
        self._dirty.pop(log.number, None)
        self.views[log.number] = log.view()

    def wait_for(self, log: WrittenLog) -> None:
        """It is going to be written anew; until then nothing is folded into it."""
        self._touched[log.number] = self._changed[log.number] = log
        self._dirty.pop(log.number, None)

    def checkpointed_state(self, number: LogNumber) -> LogState:
        return self._states.get(number) or LogState(number, 0, 0, (EpochStart(0, 0, 0),))

    def _capture(self, clean: bool) -> Checkpoint:
        """The state of every log now, when all that was taken is in the files. Only what changed is described anew."""
        states = {**self._states, **{number: log.state() for number, log in self._touched.items()}}
        return Checkpoint(
            start_number=self.checkpoint.start_number,
            first_sequence=self.taken_sequence,
            known_durable=self.taken_sequence,
            next_log_number=self._catalogue.next_number,
            clean=clean,
            logs=tuple(state for number, state in states.items() if number in self.logs),
            serial=self.checkpoint.serial + 1,
            largest_commit=self.largest_commit,
        )

    def _breathe(self) -> None:
        """Between two syncs of a checkpoint: go on writing, so that the hot tail stays short. What is taken now is
        not in it."""
        self._take_inbox()
        self._flush_large()

    def _seal_due(self) -> None:
        for number, log in self.logs.items():
            if log.is_due:
                log.seal()
                self._touched[number] = self._changed[number] = log
                self.views[number] = log.view()

    def _take_inbox(self) -> None:
        for _ in range(len(self.inbox)):
            frame = self.inbox[0]
            try:
                self._take_frame(frame)
            except MemoryError:
                self._break_off(frame)
                return
            self.inbox.popleft()
            self.taken_sequence = Sequence(frame.sequence + 1)
            self._taken_bytes += frame.bytes
            self._unflushed_bytes += frame.bytes

    def _take_frame(self, frame: Frame) -> None:
        dirty, large_bytes, large = self._dirty, self._options.flush_bytes, self._large
        entries, place = frame.entries, 0
        while (place := fold(entries, place, dirty, CATALOGUE_NUMBER, large_bytes, large)) < len(entries):
            self.take(entries[place])
            place += 1

    def _break_off(self, frame: Frame) -> None:
        """Nobody knows which entries of the frame were folded: its logs are going to be written anew, so that nothing
        of it is folded into them when it is taken again."""
        lack = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        telling.warn("take", "a frame is taken later sequence=%d error=%s", frame.sequence, lack)
        for log in [self.logs[entry.log] for entry in frame.entries if entry.log in self.logs]:
            if not log.stopped and log.number not in self._rescue.waiting:
                log.outlived += self.views[log.number].paths()
                self._rescue.postpone(log, lack)

    def take(self, entry: Entry) -> None:
        """Fold one entry of a durable frame."""
        log = self.logs.get(entry.log)
        if log is None:
            return  # its log was deleted later in the journal than this was written
        if log.stopped:
            self._touched[log.number] = log
            self._rescue.keep_aside(log, entry)
            return
        if log.number not in self._rescue.waiting:
            self._fold(log, entry)
        if entry.log == CATALOGUE_NUMBER and entry.edit is None:
            self._take_catalogue(entry)

    def _fold(self, log: WrittenLog, entry: Entry) -> None:
        if log.number not in self._dirty:
            # What is dirty is in the others too: they are emptied only where nothing is.
            self._touched[log.number] = self._dirty[log.number] = self._changed[log.number] = log
        try:
            with memory:
                log.take(entry)
        except OSError as error:
            telling.warn("fold", "segment not read, writing it anew log=%s error=%s", log.name, error)
            log.outlived += self.views[log.number].paths()  # what broke off has forgotten some of them
            self._rescue.postpone(log, error)
            return
        if log.pending_bytes >= self._options.flush_bytes:
            self._large.append(log)
        if entry.edit is not None and entry.edit.adopted:
            self._next_flush = -inf  # readers wait for it

    def _take_catalogue(self, entry: Entry) -> None:
        for change in changes(entry.data):
            if change.declared is None:
                self._delete(change.number)
            elif (log := self.logs.get(change.number)) is not None:
                log.settings = change.declared.settings
                self._touched[change.number] = log
            else:
                self._create(change.declared)
            self._catalogue.apply(change)

    def _create(self, declared: Declared) -> None:
        number = LogNumber(declared.number)
        log = WrittenLog(self.files, self._clock, number, LogName(declared.name), declared.settings)
        self.logs[number] = self._touched[number] = self._changed[number] = log
        self.views[number] = log.view()

    def _delete(self, number: LogNumber) -> None:
        log = self.logs.pop(number, None)
        for logs in (self._touched, self._dirty, self._changed):
            logs.pop(number, None)
        self._states.pop(number, None)
        self._rescue.forget(number)
        self.views.pop(number, None)
        if log is not None:
            self.going.append(log)

    def _flush_large(self) -> None:
        large, self._large = self._large, []
        due = {log.number: log for log in large if self._dirty.get(log.number) is log and log.number not in self.held}
        if due or self._stopped:
            self._flush(list(due.values()))

    def _flush(self, logs: list[WrittenLog]) -> None:
        written: list[LogNumber] = []
        self._write_together(logs)
        for log in logs:
            try:
                with memory:
                    log.flush()
            except OSError as error:
                self._failed(log, error)
            else:
                self._dirty.pop(log.number, None)
                self.views[log.number] = log.view()
            if log.number not in self._dirty and self._is_kept_up(log.number):
                written.append(log.number)
        self._look_at_disk()
        if written or self._stopped:
            stopped, self._stopped = self._stopped, {}
            self.tell(Written(written, self.taken_sequence, stopped))

    def _write_together(self, logs: list[WrittenLog]) -> None:
        """So that not each of many files gives the interpreter up and waits for it. What is left, flush() writes."""
        segments = [segment for log in logs for segment in log.unwritten]
        if len(segments) > 1:
            with contextlib.suppress(OSError), memory:
                self.files.write_many(segments)

    def _is_kept_up(self, number: LogNumber) -> bool:
        return not self.logs[number].stopped and number not in self._rescue.waiting

    def _failed(self, log: WrittenLog, error: OSError) -> None:
        """What can pass is waited for, a full disk above all; anything else means that the file cannot be relied on."""
        if can_pass(error):
            telling.warn("write", "segment not written yet, tried again log=%s error=%s", log.name, error)
            return
        logger.error("segment failed, writing it anew log=%s error=%s", log.name, error)
        self._rescue.mend(log, error)

    def _look_at_disk(self) -> None:
        with contextlib.suppress(OSError):  # the last look counts
            self.free_bytes = self._disk.free_bytes()

    def _sync_steps(self) -> None:
        """Files that gathered enough unsynced bytes, so that a checkpoint finds little left to sync."""
        due = self._options.sync_step_bytes
        self._sync_segments([path for path, size in self.files.unsynced.items() if size >= due], lambda: None)

    def _sync_segments(self, paths: list[str], between: Callable[[], None]) -> None:
        for path in paths:
            if path not in self.files.unsynced:
                continue
            try:
                self.files.sync(path)
            except OSError as error:
                self._sync_failed(path, error)
            between()

    def _sync_directories(self) -> None:
        """In any order: a checkpoint is written only after all of them."""
        for directory in sorted(self.files.unsynced_directories):
            try:
                self.files.sync_directory(directory)
            except OSError as error:
                log = self.logs.get(_log_number(directory))
                if log is None or can_pass(error):
                    self.files.unsynced_directories.add(directory)
                    raise
                self._rescue.give_up(log, error)

    def _sync_failed(self, path: str, error: OSError) -> None:
        self._not_synced += 1
        if can_pass(error):
            telling.warn("sync", "segment not synced yet, tried again file=%s error=%s", path, error)
            return
        number = _log_number(path.rpartition("/")[0])
        self.files.forget(path)
        log = self.logs.get(number)
        if log is not None and path in log.paths():
            logger.error("segment not synced, writing it anew log=%s error=%s", log.name, error)
            self._rescue.mend(log, error)

    def _is_checkpoint_due(self, now: float) -> bool:
        if self.checkpoint_wanted.is_set() or self._taken_bytes >= self._options.checkpoint_bytes:
            return True
        if now - self._last_checkpoint < self._options.checkpoint_s:
            return False
        return bool(self._touched) or self._is_sealing_due(now)

    def _is_sealing_due(self, now: float) -> bool:
        """Looked for now and then while nothing else happens: old segments of idle logs are sealed, to be let go of."""
        if now - self._looked_s < self._options.checkpoint_s:
            return False
        self._looked_s = now
        return any(log.is_due for log in self.logs.values())

    def _let_go(self, begun: float) -> None:
        if self.journal is not None:
            self.journal.release(Sequence(self.checkpoint.first_sequence))
        self.checkpoint_wanted.clear()
        self._last_checkpoint = self._clock.monotonic()
        self._metrics.checkpoints += 1
        self._metrics.checkpoint_ns += int((self._last_checkpoint - begun) * 1e9)


def _log_number(directory: str) -> LogNumber:
    """The log whose directory it is; -1 for one that several share."""
    number = directory.rpartition("@")[2]
    return LogNumber(int(number) if number.isdecimal() else -1)
