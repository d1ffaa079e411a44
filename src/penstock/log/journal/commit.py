"""Group commit: what all logs have staged goes to the journal with one write and, if anyone waits for it, one sync."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from penstock.core.errors import JournalFailed
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Clock
from penstock.core.types import Durability, Sequence
from penstock.log.journal.frames import Frame
from penstock.log.journal.journal import Journal
from penstock.log.upkeep.faults import Telling, can_pass

logger = logging.getLogger("penstock.log.commit")
telling = Telling(logger)

# Between two tries to write what could not be, if nothing else calls for one.
_RETRY_S = 0.2
# To hand a commit to another thread and be told takes 0.1 to 0.3 ms of processor time: worth it where the disk takes
# longer than this. Of the last steps the newest counts an eighth, so that one slow sync in fifty changes nothing for
# long, and a disk that gets slow keeps the loop once or twice.
_QUICK_S = 0.5e-3
_NEWEST = 0.125
# What nobody waited for yet is synced with what somebody does wait for.
_QUICK_BYTES = 256 << 10
# A member that is looked up costs as much as a call.
_COMMIT = Durability.COMMIT


@dataclass(frozen=True, slots=True)
class CommitOptions:
    sync_interval_s: float = 1.0
    # Frames wait in memory for their sync; this bounds how much of that `interval` and `memory` logs may pile up.
    unsynced_bytes: int = 16 << 20


class Progress(NamedTuple):
    """Frames below `written` are in the journal, those below `synced` are durable; or the journal failed."""

    written: Sequence
    synced: Sequence
    failure: JournalFailed | None = None


class GroupCommit:
    """submit() is the loop's, step() the storage thread's, try_step() any thread's. One of them steps at a time."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        options: CommitOptions,
        metrics: ShardMetrics,
        tell: Callable[[Progress], None],
        hand_over: Callable[[list[Frame]], None],
    ) -> None:
        """`tell` is called from the storage thread once per group; `hand_over` gets every frame once it is durable,
        from whoever steps."""
        self._journal, self._clock, self._options, self._metrics = journal, clock, options, metrics
        self._tell, self._hand_over = tell, hand_over
        self._stepping = threading.Lock()
        self._staged: deque[Frame] = deque()
        self._unsynced: list[Frame] = []
        self._unsynced_bytes = 0
        self._sync_wanted = False
        """one of the unsynced frames has somebody waiting for its sync"""
        self._last_sync = clock.monotonic()
        self._step_s = 0.0
        """how long writing and syncing takes lately"""
        self._is_put_off = False
        """some frames could not be written, and are tried again"""
        self._wakes_at = inf
        """when whoever steps will do so without being called"""
        self.failure: JournalFailed | None = None

    def submit(self, frame: Frame) -> None:
        self._staged.append(frame)

    def step(self, *, sync: bool = False) -> None:
        """Write all that is staged; sync if a frame needs it, if the interval is over, or if told to."""
        with self._stepping:
            progress = self._advance(sync)
        if progress is not None:
            self._tell(progress)

    def try_step(self) -> Progress | None:
        """A step that the caller tells the loop of; None, and what is staged waits for a step(), if another thread is
        at it, if it is time for another file, which may have to be waited for, or if the journal failed. A sync that
        nobody waits for is left to a step(): see is_due."""
        if not self._stepping.acquire(blocking=False):
            return None
        try:
            size = 0
            for frame in list(self._staged):
                size += frame.bytes
            return self._advance(None) if self._journal.has_room(size) else None
        finally:
            self._stepping.release()

    def _advance(self, sync: bool | None) -> Progress | None:
        """`sync` is None where only what somebody waits for is synced."""
        if self.failure is not None:
            return None
        frames: list[Frame] = []
        staged, journal = self._staged, self._journal
        for _ in range(len(staged)):
            frames.append(staged.popleft())  # noqa: PERF401  # a list comprehension is a call before Python 3.12
        if not frames and not self._unsynced:
            return None
        begun = self._clock.monotonic()
        try:
            if frames:
                self._metrics.commit_frames.observe(len(frames))
                self._write(frames)
            if self._sync_wanted or (sync is not None and self._unsynced and (sync or self._is_overdue)):
                self._sync()
                ended = self._last_sync
            else:
                ended = self._clock.monotonic()
        except OSError as error:
            self.fail(JournalFailed(str(error)))
            return None
        self._step_s += (ended - begun - self._step_s) * _NEWEST
        return Progress(journal.next_sequence, journal.synced_sequence)

    @property
    def is_quick(self) -> bool:
        """Whether steps take so short lately that a thread with other work may take one itself."""
        return self._step_s < _QUICK_S and self._unsynced_bytes < _QUICK_BYTES

    @property
    def is_due(self) -> bool:
        """Whether a step() is to be called: for what is staged, or for a sync that nobody waits for, nor steps for."""
        return bool(self._staged) or (bool(self._unsynced) and (self._due < self._wakes_at or self._is_overdue))

    def seconds_to_sync(self) -> float | None:
        """When step() is due although nothing is staged; None if nothing waits for a sync, or to be written again. For
        the thread that steps then."""
        self._wakes_at = inf  # before it looks: what comes behind the look finds that nobody will step
        if self._is_put_off and self.failure is None:
            return _RETRY_S
        if not self._unsynced:
            return None
        self._wakes_at = due = self._due
        return max(0.0, due - self._clock.monotonic())

    @property
    def is_idle(self) -> bool:
        return not self._staged

    def _write(self, frames: list[Frame]) -> None:
        """What cannot be written now stays staged, in its order, if that can pass."""
        done, self._is_put_off = 0, False
        try:
            while done < len(frames):
                some = frames[done:] if done else frames
                taken = self._journal.write(some)
                self._await_sync(some if taken == len(some) else some[:taken])
                done += taken
                if done < len(frames):
                    self._roll()
        except OSError as error:
            if not can_pass(error):
                raise
            self._staged.extendleft(reversed(frames[done:]))
            self._is_put_off = True
            self._metrics.commits_put_off += 1
            telling.warn(
                "commit",
                "commits wait, the journal cannot be written yet frames=%d error=%s",
                len(frames) - done,
                error,
            )

    def _await_sync(self, frames: list[Frame]) -> None:
        self._unsynced += frames
        size, is_wanted = self._unsynced_bytes, self._sync_wanted
        for frame in frames:
            size += frame.bytes
            is_wanted = is_wanted or frame.level is _COMMIT
        self._unsynced_bytes, self._sync_wanted = size, is_wanted

    def _roll(self) -> None:
        """The keeper gets what is durable first: rolling may have to wait for its checkpoint."""
        self._sync()
        self._tell(Progress(self._journal.next_sequence, self._journal.synced_sequence))
        self._journal.roll()

    @property
    def _due(self) -> float:
        """When what nobody waits for is to be synced."""
        return self._last_sync + self._options.sync_interval_s

    @property
    def _is_overdue(self) -> bool:
        return self._unsynced_bytes >= self._options.unsynced_bytes or self._clock.monotonic() >= self._due

    def _sync(self) -> None:
        self._last_sync = self._journal.sync()
        durable, self._unsynced, self._unsynced_bytes, self._sync_wanted = self._unsynced, [], 0, False
        if durable:
            self._hand_over(durable)

    def fail(self, failure: JournalFailed) -> None:
        """Recorded before anybody who waits is told; nothing is written to this journal again."""
        if self.failure is not None:
            return
        self.failure = failure
        logger.critical(
            "journal failed, nothing is acknowledged until the directory is opened again error=%s", failure.reason
        )
        self._tell(Progress(Sequence(0), Sequence(0), failure))
