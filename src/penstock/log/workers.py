"""The two threads behind the loop: one writes and syncs the journal, one keeps the segments."""

from __future__ import annotations

import logging
import threading
from time import monotonic

from penstock.core.errors import JournalFailed
from penstock.log.engine import Engine
from penstock.log.journal.commit import Progress
from penstock.log.threads import StepThread

logger = logging.getLogger("penstock.log.workers")

# A file that has to be written anew puts the checkpoint off; a second try finds it mended.
_LAST_CHECKPOINT_TRIES = 3
# Enough to keep the keeper busy with large writes, little enough that the tail stays short.
_KEEPER_WAKE_BYTES = 1 << 20
# While it works, the loop gets the interpreter back half a millisecond after each of its system calls: what the keeper
# does at once, the loop stands still for. Little and often is not felt; but what is less than this can wait a while.
_KEEPER_WAKE_S = 0.01
_LITTLE_BYTES, _LITTLE_WAIT_S = 64 << 10, 0.05


class Workers:
    """Use start(), then stop()."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._space = threading.Event()
        self._storage = StepThread("penstock-storage", engine.commit.step, engine.commit.seconds_to_sync, self._crashed)
        self._keeper = StepThread("penstock-keeper", self._keep, lambda: engine.keeper.pause_s, self._crashed)
        self._handed_bytes, self._woken_s = 0, 0.0
        self.wake_storage, self.wake_keeper = self._storage.bell.ring, self._keeper.bell.ring
        engine.views_wanted = self.wake_keeper
        engine.journal.make_space = self._wait_for_space
        engine.handed_over = self._count_handed

    def start(self) -> None:
        self._storage.start()
        self._keeper.start()

    def commit_here(self) -> Progress | None:
        """What the storage thread would do, in the thread that calls; None if that one is at it, or has to go on."""
        commit = self._engine.commit
        try:
            progress = commit.try_step()
        except BaseException as error:
            logger.critical("a commit broke off", exc_info=True)
            self._crashed(error)
            return None
        if progress is None or commit.is_due:
            self.wake_storage()
        return progress

    def want_checkpoint(self) -> None:
        self._engine.keeper.checkpoint_wanted.set()
        self.wake_keeper()

    def stop(self) -> None:
        """Both have ended, and unless the journal failed a last checkpoint says that nothing is behind it."""
        self._storage.stop()
        self._keeper.stop()
        if self._engine.commit.failure is None:
            self._write_last_checkpoint()

    def _write_last_checkpoint(self) -> None:
        """If it cannot be written, the next opening replays the journal: nothing is lost."""
        self._engine.commit.step(sync=True)
        for _ in range(_LAST_CHECKPOINT_TRIES):
            if self._engine.keeper.write_checkpoint(clean=True):
                return
        logger.warning("closed without a checkpoint, the next opening will replay the journal")

    def _keep(self) -> None:
        self._engine.keeper.step()
        # Told only of success: a wait that ended with every failed checkpoint would ask for the next one at once.
        if self._engine.journal.has_free_file:
            self._space.set()

    def _count_handed(self, size: int) -> None:
        self._handed_bytes += size
        now, wait_s = monotonic(), _KEEPER_WAKE_S if self._handed_bytes >= _LITTLE_BYTES else _LITTLE_WAIT_S
        is_much = self._handed_bytes >= _KEEPER_WAKE_BYTES or self._engine.keeper.wants_ring
        if is_much or now - self._woken_s >= wait_s:
            self._handed_bytes, self._woken_s = 0, now
            self.wake_keeper()

    def _wait_for_space(self) -> None:
        """Storage thread: every journal file is in use until the keeper's next checkpoint."""
        while not self._engine.journal.has_free_file and self._engine.commit.failure is None:
            self._space.clear()
            self.want_checkpoint()
            self._space.wait(0.2)

    def _crashed(self, error: BaseException) -> None:
        """A thread met what it did not expect: stop acknowledging rather than go on without it."""
        self._engine.commit.fail(JournalFailed(f"{type(error).__name__}: {error}"))
