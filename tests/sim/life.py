"""One shard after the other on the same simulated disk: opened, closed, killed and cut off, and what must hold then."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.sim.model import Alter, Change, Declare, Delete, History
from tests.sim.reading import check_bounds, check_no_strays, check_recovered
from tests.support.clock import FakeClock
from tests.support.simdisk import SimDisk, SimulatedCrash

from penstock.core.errors import JournalFailed
from penstock.core.metrics import ShardMetrics
from penstock.core.types import Durability
from penstock.log.engine import Engine
from penstock.log.journal.commit import CommitOptions
from penstock.log.journal.journal import JournalOptions
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.offline.check import small_file_faults
from penstock.log.offline.inspect import FoldedDirectory
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.reading.bounds import OFFSET_GAP
from penstock.log.reading.cuts import DirectoryState
from penstock.log.reading.reading import LogReader
from penstock.log.records import Edit
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.upkeep.faults import can_pass
from penstock.log.upkeep.format_file import is_ours
from penstock.log.upkeep.recovery import recover


def small_options(rng: random.Random) -> ShardOptions:
    """Everything so small that files roll, journals fill and checkpoints come within a few commits."""
    file_bytes = rng.choice((16 << 10, 20 << 10, 48 << 10))
    return ShardOptions(
        journal=JournalOptions(file_bytes, rng.choice((3, 4, 6)) * file_bytes, 12 << 10),
        keeper=KeeperOptions(
            flush_bytes=rng.choice((1, 600, 4000)),
            sync_step_bytes=rng.choice((1, 1500, 1 << 20)),
            checkpoint_bytes=rng.choice((2000, 12_000, 1 << 20)),
            max_open_files=rng.choice((1, 2, 64)),
            sync_together_files=rng.choice((1, 3, 64)),
        ),
        commit=CommitOptions(unsynced_bytes=rng.choice((1500, 1 << 20))),
        disk_reserve_bytes=0,
    )


class Life:
    """A directory, the engine that has it open, and the model of both."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.options = small_options(rng)
        self.disk = SimDisk(rng.getrandbits(64), any_subset_of_entries=rng.random() < 0.5)
        self.clock = FakeClock()
        self.history = History()
        self.engine: Engine | None = None
        self.closed = True
        """whether the last stop may have been a clean one"""
        self.power_lost = False
        self.keeper_ended = False
        self.interleaved = False
        """whether one thread runs in the middle of a step of the other"""
        self.promised: dict[int, int] = {}
        """log number -> visible end of a log of durability `commit` when the engine was left"""
        self.faulty = rng.random() < 0.4
        """whether disk calls fail now and then; the others are pure crashes"""
        self.may_leave_strays = False
        """files that nobody knows, until the next opening"""
        self.trace: list[str] = []

    @property
    def live(self) -> Engine:
        assert self.engine is not None
        return self.engine

    def close(self) -> None:
        engine = self.live
        engine.commit.step(sync=True)
        self.closed = engine.commit.failure is None
        if self.closed:
            self._keeper(lambda: self._after_checkpoint(engine.keeper.write_checkpoint(clean=True)))
        self._leave()
        self._end_process()
        self._open()

    def kill(self) -> None:
        self._leave()
        self._end_process()
        self._open()

    def power_cut(self) -> None:
        self._leave()
        self._cut_power()
        self._open()

    def _die(self) -> None:
        self.power_cut() if self.rng.random() < 0.7 else self.kill()

    def _cut_power(self) -> None:
        self.power_lost = True
        self.disk = self.disk.crash(self.rng)

    def _end_process(self) -> None:
        self.disk = self.disk.kill()

    def _leave(self) -> None:
        """What readers have been shown in the last moment counts."""
        if self.engine is None:
            return
        changing = {
            change.number
            for commit in self.history.pending
            for change in commit.changes
            if isinstance(change, Declare | Delete)
        }
        self.promised = {}
        for number, log in self.engine.logs.items():
            if number in self.history.tip:
                self.history.seen(number, log.visible_end)
                if number not in changing and log.settings.durability is Durability.COMMIT:
                    self.promised[number] = log.visible_end
        self.engine = None

    def _is_stopped(self, log: Log) -> bool:
        """Its view is that of the checkpoint, whatever was committed since: that is kept aside, and an opening puts it
        back."""
        written = self.live.keeper.logs.get(log.number)
        return written is not None and bool(written.stopped)

    def _open(self) -> None:
        """Until it succeeds; it too may be cut short."""
        for attempt in range(20):
            if self.rng.random() < 0.3 and attempt < 5:
                self.disk.crash_at = self.disk.calls + self.rng.randint(1, 40)
            try:
                self._open_once()
                return
            except SimulatedCrash as crash:
                self.trace.append(f"opening: {crash}")
                self._leave()
                self._cut_power() if self.rng.random() < 0.6 else self._end_process()
            except (OSError, JournalFailed) as error:
                self.trace.append(f"opening: {error!r}")
                assert self.faulty, f"opening failed without a reason: {error!r}"
                self._leave()
                self._end_process()
                self.disk.capacity_bytes = None
        raise AssertionError("the directory cannot be opened")

    def _open_once(self) -> None:
        self._check_nothing_is_found()
        metrics, self.interleaved, self.keeper_ended = ShardMetrics(), False, False
        self.may_leave_strays = False
        opened = recover(self.disk, self.clock, self.options, metrics)
        self.trace.append(f"opened at {opened.journal.next_sequence}, unclean {opened.unclean}")
        assert opened.unclean or self.closed, "an unclean stop was taken for a clean one"
        self.history.recovered(opened.journal.next_sequence, self.power_lost)
        self.power_lost, self.closed = False, False
        check_recovered(self.disk, self.history.settled, opened)
        self._check_promises()
        if opened.unclean:
            self._expect_gaps()
        self.engine = Engine(self.disk, self.clock, self.options, metrics, opened, lambda call: call())
        self._let_keeper_run_before_syncs()
        self._let_commits_run_beside_checkpoints()
        self.reader = LogReader(self.disk, self.engine.keeper.views, cache_segments=2)
        self._check_live()

    def _check_nothing_is_found(self) -> None:
        """A crash is no damage: what tells of lost files and frames has nothing to tell."""
        assert small_file_faults(self.disk) == []
        if is_ours(self.disk) and self.rng.random() < 0.2:
            found = FoldedDirectory(self.disk, DirectoryState.CRASHED)
            assert (found.faults, found.journal.problems) == ([], [])

    def _check_promises(self) -> None:
        for number, end in self.promised.items():
            if number in self.history.settled:
                assert self.history.settled[number].end >= end, f"log {number}: what readers saw to {end} is gone"
        self.promised = {}

    def _let_keeper_run_before_syncs(self) -> None:
        """The keeper has a thread of its own: it may run between a write of the journal and the sync."""
        journal, sync = self.live.journal, self.live.journal.sync

        def run_then_sync() -> float:
            if not self.interleaved and journal.synced_sequence < journal.next_sequence and self.rng.random() < 0.2:
                self.interleaved = True
                self._keeper(self.live.keeper.step)
                self.interleaved = False
            return sync()

        journal.sync = run_then_sync  # type: ignore[method-assign]  # the storage thread's one point of waiting

    def _let_commits_run_beside_checkpoints(self) -> None:
        """So does the storage thread, while the keeper syncs a segment; never for so much that it would wait for it."""
        engine, sync = self.live, self.live.keeper.files.sync

        def run_then_sync(path: str) -> None:
            staged = sum(frame.bytes for frame in engine.commit._staged)
            fits = engine.journal.has_free_file and staged <= self.options.journal.max_frame_bytes
            if not self.interleaved and fits and self.rng.random() < 0.3:
                self.interleaved = True
                engine.commit.step(sync=True)
                self.interleaved = False
            sync(path)

        engine.keeper.files.sync = run_then_sync  # type: ignore[method-assign]  # where a checkpoint takes its time

    def _expect_gaps(self) -> None:
        """After an unclean stop, logs that may have lost what was acknowledged go on far behind their end."""
        gaps: list[Change] = [
            Alter(number, Edit(end=log.end + OFFSET_GAP))
            for number, log in self.history.tip.items()
            if log.settings.durability is not Durability.COMMIT
        ]
        if gaps:
            self.history.staged(self.history.begin(Durability.COMMIT), gaps)

    def _check_live(self) -> None:
        engine, history = self.live, self.history
        history.fold_durable()
        assert set(engine.logs) - {CATALOGUE_NUMBER} == set(history.tip), "the set of logs"
        for number, log in engine.logs.items():
            if number in history.tip and log.fault is None:
                check_bounds(number, history.tip[number], log.bounds)
        tail_bytes = sum(len(batch.data) for log in engine.logs.values() for batch in log.tail)
        assert engine.usage.tail == tail_bytes, f"{engine.usage.tail} bytes are counted, the tails hold {tail_bytes}"
        slots = len(self.disk.list("journal")) - self.faulty  # one that could neither be made whole nor removed
        assert slots <= self.options.journal.limit_bytes // self.options.journal.file_bytes, "the journal is too large"

    def _keeper(self, step: Callable[[], None]) -> None:
        """What the keeper's thread does not expect ends it, and the shard stops acknowledging."""
        if self.keeper_ended:
            return
        try:
            step()
        except (OSError, JournalFailed) as error:
            assert self.faulty, f"the keeper failed without a reason: {error!r}"
            assert not (isinstance(error, OSError) and can_pass(error)), f"the keeper did not wait: {error!r}"
            self.keeper_ended = True
            self.live.commit.fail(JournalFailed(repr(error)))

    def _after_checkpoint(self, is_written: bool) -> None:
        assert is_written or self.faulty, "a checkpoint was not written"
        if is_written and not self.may_leave_strays and not any(log.stopped for log in self.live.keeper.logs.values()):
            check_no_strays(self.disk, self.live)
