"""A data directory open for writing: the engine with its loop, its storage thread and its keeper thread."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from penstock.core.clock import SystemClock
from penstock.core.errors import Closed, DiskLow, JournalFailed, OffsetOutOfRange, PenstockError
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Buffer, Clock
from penstock.core.timeline import Timeline
from penstock.core.types import Epoch, LogName, LogNumber, Offset, Purpose, TimestampMs
from penstock.kernels.staged import any_apart
from penstock.log import batch as batches
from penstock.log.columns import Columns
from penstock.log.disk import DirectoryLock, RealDisk
from penstock.log.encoded import Rows, encode
from penstock.log.engine import Done, Effect, Engine, Post
from penstock.log.journal.admission import Admission
from penstock.log.journal.large_commit import Adopting, Fill
from penstock.log.journal.late import Late, LateParts, Part, nothing
from penstock.log.journal.spread import Spread
from penstock.log.journal.turns import Turns
from penstock.log.offline.damage import Damage
from penstock.log.opened import opened_directory
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.reading.holes import Thinned, hollow
from penstock.log.reading.reading import LogReader
from penstock.log.reading.table import publish_from
from penstock.log.records import Declared, Edit, LogSettings, encode_declared
from penstock.log.segments.segments import SealedSegment
from penstock.log.upkeep.faults import Telling, can_pass
from penstock.log.upkeep.housekeeping import Housekeeper
from penstock.log.volatile import Beside, VolatileParts, has_volatile, in_order, stage_one, without_volatile
from penstock.log.workers import Workers

logger = logging.getLogger("penstock.log.shard")
telling = Telling(logger)

T = TypeVar("T")

__all__ = ["Late", "LateParts", "Part", "RowsPart", "Shard", "resolve"]

StageCall = Callable[[Done], None]

RowsPart = tuple[Log, Rows]

_PUBLISH = Purpose.PUBLISH
_READ_AGAIN_S = 0.1
# Longer than writing a thousand logs takes, on a busy machine too.
_SHOWN_S = 5.0
# Compressing this much takes lz4 about 0.3 ms, zstd 0.7: longer than a hop to another thread and back.
_HEAVY_BYTES = 256 << 10
# Beside what a record of the catalogue says: the log's number as its key, and where both end.
_RECORD_BYTES = 32
# Writing this much takes about as long as a sync: better begun while the loop goes on.
_WORTH_A_SYNC_BYTES = 64 << 10


class Shard:
    """Use from one event loop. A commit is awaited: when it returns, it is durable as its logs ask; when it raises
    OutcomeUnknown, it is there whole or not at all after the directory is opened again; any other error means it is
    not there."""

    def __init__(
        self, lock: DirectoryLock, engine: Engine, disk: RealDisk, clock: Clock, options: ShardOptions
    ) -> None:
        """Use Shard.open()."""
        self._lock, self._engine, self._options = lock, engine, options
        self._largest_commit = engine.keeper.largest_commit
        self._loop = asyncio.get_running_loop()
        self._admission = Admission(
            self._loop,
            engine.usage,
            engine.metrics,
            options,
            lambda: self._closed or self._is_failed,
            engine.want_room,
        )
        self._turns = Turns()
        """of logs with a batch that is being compressed, or with segments that are being written"""
        self.timeline = Timeline(clock)
        self._adopting = Adopting(engine, disk, clock, self._turns)
        self._closing = asyncio.Event()
        self._closed = False
        self._workers = Workers(engine)
        self._is_committing = False
        """what is staged will be committed when this turn of the loop is over"""
        self.commit_here = self._workers.commit_here
        """for a thread that has staged something in the loop's stead, while `is_visited`: commit it in that thread,
        which spares two wake-ups. The caller gives what it returns to report(). None, and the storage thread commits
        it, if somebody else is at it"""
        self.report = engine.report
        """for what commit_here() gave, in the loop's stead: whoever waits for it is told"""
        self.promise, self.restore_promise, self.hold_back = engine.promise, engine.restore_promise, engine.hold_back
        self.max_frame_bytes = options.journal.max_frame_bytes
        self.is_visited = False
        """what runs now is followed by commit_here(): see there"""
        self.reader = LogReader(disk, engine.keeper.views)
        self.damages: list[str] = []
        """what the start had to do without: what readable() passed over, and what could not be written"""
        self.floors: dict[LogNumber, Callable[[], int | None]] = {}
        self.unsettled: dict[LogNumber, Callable[[int, int], array[int] | None]] = {}
        """of a log that lets go of what is settled: the first offset that somebody has not settled"""
        self._table = publish_from(disk, engine.keeper)
        engine.room = self._admission.admit_waiting
        engine.keeper.files.unlinked = self.reader.maps.forget
        self._housekeeper = Housekeeper(
            engine,
            disk,
            clock,
            self.timeline,
            reserve_bytes=options.reserve(disk.total_bytes()),
            floor=lambda log: self.floors[log.number]() if log.number in self.floors else None,
            unsettled=lambda log, first, stop: (
                self.unsettled[log.number](first, stop) if log.number in self.unsettled else None
            ),
        )
        self._workers.start()
        self._housekeeping = self._loop.create_task(self._keep_house())

    @classmethod
    async def open(cls, directory: Path, options: ShardOptions | None = None, clock: Clock | None = None) -> Shard:
        """Recover what is there; DirectoryInUse if another process has it open."""
        options, clock = options or ShardOptions(), clock or SystemClock()
        loop = asyncio.get_running_loop()
        opened = await loop.run_in_executor(None, opened_directory, directory, options, clock)
        try:
            engine = Engine(opened.disk, clock, options, opened.metrics, opened.recovered, _poster(loop))
            await asyncio.sleep(0)
            return cls(opened.lock, engine, opened.disk, clock, opened.recovered.options)
        except BaseException:
            opened.lock.release()
            raise

    async def __aenter__(self) -> Shard:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def metrics(self) -> ShardMetrics:
        return self._engine.metrics

    @property
    def logs(self) -> list[Log]:
        return list(self._engine.logs.values())

    @property
    def faulty_logs(self) -> list[Log]:
        """Those that take no records, each with its `fault`."""
        return self._engine.faulty_logs

    @property
    def log_count(self) -> int:
        return len(self._engine.logs)

    @property
    def free_bytes(self) -> int:
        """Of the disk, when it was last looked at."""
        return self._engine.keeper.free_bytes

    def stored_bytes(self, log: Log) -> int:
        """In the files of a log."""
        view = self._engine.keeper.views.get(log.number)
        if view is None:
            return 0
        active = 0 if view.active is None else view.active.info.bytes
        return active + sum([segment.info.bytes for segment in view.sealed])

    def holes(self, log: Log, offset: int) -> int:
        """How many offsets from that one on name nothing, as compaction removed their records."""
        view = self._engine.keeper.views.get(log.number)
        return 0 if view is None or not view.sealed else log.holes.behind(offset, view, log.bounds.epochs)

    async def learn_holes(self, logs: Sequence[Log]) -> None:
        """After opening: look into the segments of logs from which compaction has removed records."""
        views = self._engine.keeper.views
        found = [
            (log, segment)
            for log in logs
            if (view := views.get(log.number)) is not None
            for segment in view.sealed
            if hollow(segment.info, log.bounds.epochs)
        ]
        if found:
            tables = await self._loop.run_in_executor(None, self._thinned, [segment for _, segment in found])
            for (log, segment), table in zip(found, tables, strict=True):
                log.holes.tables |= {} if table is None else {segment.path: table}

    def _thinned(self, segments: Sequence[SealedSegment]) -> list[Thinned | None]:
        return [self._housekeeper.thinned(segment) for segment in segments]

    def log(self, name: str) -> Log:
        """NoSuchLog if there is none of that name."""
        return self._engine.log(name)

    def readable(self, log: Log, start: int) -> Iterator[Buffer]:
        """Every batch from `start` on that is whole. What is damaged is passed over, which the log and `damages` tell:
        for what would otherwise keep all of it from starting."""
        return self.reader.readable(log, start, partial(self._pass_over, log))

    def _pass_over(self, log: Log, damage: Damage) -> None:
        self.tell_damage(log, f"damaged records passed over: {damage}")

    def tell_damage(self, log: Log, what: str) -> None:
        """To those who ask for warnings, and in the log."""
        self.damages.append(f"log {log.name}: {what}")
        logger.error("damage found at the start log=%s reason=%s", log.name, what)

    async def append(self, log: Log, columns: Columns, purpose: Purpose = Purpose.PUBLISH) -> Offset:
        """The first offset of the records; the others follow it."""
        return (await self.commit([(log, columns)], purpose))[0]

    async def commit(
        self,
        parts: Sequence[RowsPart],
        purpose: Purpose = Purpose.PUBLISH,
        late: LateParts | None = None,
        staged: Effect | None = None,
    ) -> list[Offset]:
        """Append to any number of logs, all or nothing; the first offset of each part. `late` gives further parts at
        the moment at which offsets are given away. `staged` is called in the turn in which the frame is staged, when
        it can no longer be refused."""
        is_apart = any_apart([log for log, _ in parts])
        if is_apart and has_volatile(parts):
            return await self._commit_volatile(parts, purpose, late, staged)
        size = sum([columns.bytes for _, columns in parts])
        if size > self._largest_commit:
            self._note_largest(size)
        if not self._admission.is_let_in(purpose, size):
            await self._admission.admitted(purpose, size)
        if (is_apart and _is_heavy(parts)) or (self._turns and self._turns.hold([log for log, _ in parts])):
            return await self._commit_in_turn(parts, purpose, late, staged)
        self._refuse(purpose)
        future: asyncio.Future[None] = self._loop.create_future()
        offsets = self._stage(parts, purpose, late, None, staged, future)
        self._commit_soon()
        await future
        return offsets

    async def commit_spread(self, spread: Spread, staged: Effect | None = None) -> Sequence[int]:
        """commit() of one set of columns over many logs."""
        is_apart = spread.is_apart
        if is_apart and has_volatile(parts := spread.parts()):
            return await self._commit_volatile(parts, Purpose.PUBLISH, None, staged)
        size = spread.columns.bytes
        if size > self._largest_commit:
            self._note_largest(size)
        if not self._admission.is_let_in(Purpose.PUBLISH, size):
            await self._admission.admitted(Purpose.PUBLISH, size)
        if is_apart or self._turns.hold(spread.logs):
            return await self._commit_in_turn(spread.parts(), Purpose.PUBLISH, None, staged)
        self._refuse(Purpose.PUBLISH)
        future: asyncio.Future[None] = self._loop.create_future()
        offsets = self._engine.stage_spread(spread, partial(resolve, future), apply=staged)
        self._commit_soon()
        await future
        return offsets

    def commit_now(self, late: Callable[[int], tuple[Spread | Sequence[Part], Effect]], done: Done) -> bool:
        """Stage what `late` gives as a settlement, in this turn of the loop; `done` is called when it is committed, or
        with what went wrong. False, and `late` was not asked, if it would have to wait for room."""
        if self._turns or not self._admission.is_let_in(Purpose.SETTLE, 0):
            return False
        self._refuse(Purpose.SETTLE)
        wanted, apply = late(self._engine.frame_room)
        self._stage_either(wanted, done, Purpose.SETTLE, apply)
        return True

    def stage_now(
        self, wanted: Spread | Sequence[RowsPart], done: Done, staged: Effect | None = None
    ) -> Sequence[int] | None:
        """As commit() of a publish, in this turn of the loop: what the parts refer to may change afterwards. `done` is
        called when it is committed, or with what went wrong. None, and nothing was staged, if it would have to wait."""
        if is_apart := wanted.is_apart if isinstance(wanted, Spread) else any_apart([log for log, _ in wanted]):
            wanted = wanted.parts() if isinstance(wanted, Spread) else wanted
            if len(wanted) == 1 and wanted[0][0].number < 0:
                self._refuse(Purpose.SETTLE)
                return [stage_one(*wanted[0], self.timeline.wall(), done, staged)]
            if has_volatile(wanted):
                return self._stage_volatile(wanted, done, staged)
        if isinstance(wanted, Spread):
            size, logs, is_heavy = wanted.columns.bytes, wanted.logs, False
        else:
            size, logs = sum([columns.bytes for _, columns in wanted]), [log for log, _ in wanted]
            is_heavy = is_apart and _is_heavy(wanted)
        if size > self._largest_commit:
            self._note_largest(size)
        if is_heavy or not self._admission.is_let_in(_PUBLISH, size) or self._turns.hold(logs):
            return None
        self._refuse(_PUBLISH)
        return self._stage_either(wanted, done, _PUBLISH, staged)

    # With logs that are in memory alone

    def _stage_volatile(
        self, wanted: Sequence[RowsPart], done: Done, staged: Effect | None = None
    ) -> Sequence[int] | None:
        """stage_now(): what is volatile is there as soon as nothing of the whole can be refused."""
        durable, volatile = without_volatile(wanted)
        self._refuse(Purpose.SETTLE)
        beside = VolatileParts()
        firsts = beside.decide(volatile, self.timeline.wall())
        if not durable:
            if staged is not None:
                staged()
            beside.apply()
            beside.tell()
            done(None)
            return firsts
        offsets = self.stage_now(
            durable, done, beside.apply if staged is None else partial(_both, staged, beside.apply)
        )
        if offsets is None:
            return None
        beside.tell()
        return in_order(wanted, offsets, firsts)

    async def _commit_volatile(
        self, wanted: Sequence[RowsPart], purpose: Purpose, late: LateParts | None, staged: Effect | None
    ) -> list[Offset]:
        """The same for commit(). Without anything for a frame nothing is waited for."""
        durable, volatile = without_volatile(wanted)
        beside = Beside(volatile, late, self.timeline.wall, self._loop.call_soon)
        if durable or late is not None:
            offsets = await self.commit(durable, purpose, beside.late, staged)
        else:
            self._refuse(Purpose.SETTLE)
            offsets = []
            beside.without_a_frame(staged)
        return in_order(wanted, offsets, beside.firsts)

    def _stage_either(
        self,
        wanted: Spread | Sequence[RowsPart],
        done: Done,
        purpose: Purpose,
        apply: Effect | None = None,
    ) -> Sequence[int]:
        offsets: Sequence[int]
        if isinstance(wanted, Spread):
            offsets = self._engine.stage_spread(wanted, done, purpose, apply)
        else:
            offsets = self._engine.stage(wanted, done, purpose, apply=apply)
        self._commit_soon()
        return offsets

    def _commit_soon(self) -> None:
        """Much goes to the storage thread at once, which writes it while the loop goes on. One sync for all the little
        that is staged in a turn: whoever took the first of it would take that alone."""
        if self.is_visited:
            return
        publishes, settlements = self._engine.usage.staged
        if publishes + settlements >= _WORTH_A_SYNC_BYTES:
            self._workers.wake_storage()
        elif not self._is_committing:
            self._is_committing = True
            self._loop.call_soon(self._commit_after_turn)

    def begin_turn(self) -> None:
        """For who takes what many have sent: what is staged until end_turn() is committed there."""
        self._is_committing = True

    def end_turn(self) -> None:
        """`done` of what was staged may be called in it."""
        self._commit_after_turn()

    def _commit_after_turn(self) -> None:
        """To hand something to another thread and be told takes longer than a short sync, and all of it is processor
        time: the loop waits for the disk itself, while that is quick."""
        self._is_committing = False
        engine = self._engine
        if engine.commit.is_idle:
            return
        if sum(engine.usage.staged) >= _WORTH_A_SYNC_BYTES or not engine.commit.is_quick:
            self._workers.wake_storage()
        elif (progress := self.commit_here()) is not None:
            engine.report(progress)

    @property
    def has_staged(self) -> bool:
        """Whether something waits to be written to the journal."""
        return not self._engine.commit.is_idle

    def _note_largest(self, size: int) -> None:
        """Before it is staged: every checkpoint that covers it says so."""
        self._largest_commit = self._engine.keeper.largest_commit = size

    async def _commit_in_turn(
        self, parts: Sequence[RowsPart], purpose: Purpose, late: LateParts | None, staged: Effect | None
    ) -> list[Offset]:
        """Large batches are compressed beside the loop; what comes behind them for the same logs waits, so that commits
        keep the order of calls."""
        future: asyncio.Future[None] = self._loop.create_future()
        async with self._turns.taken([log for log, _ in parts]):
            encoded = await self._loop.run_in_executor(None, _encode, parts) if _is_heavy(parts) else None
            self._refuse(purpose)
            offsets = self._stage(parts, purpose, late, encoded, staged, future)
        self._commit_soon()
        await future
        return offsets

    def _stage(
        self,
        parts: Sequence[RowsPart],
        purpose: Purpose,
        late: LateParts | None,
        encoded: list[bytearray] | None,
        staged: Effect | None,
        future: asyncio.Future[None],
    ) -> list[Offset]:
        done = partial(resolve, future)
        if late is None:
            return self._engine.stage(parts, done, purpose, encoded, staged)
        encoded = _encode(parts) if encoded is None else encoded
        decided = late(self._engine.room_beside(encoded))
        apply = decided.apply if staged is None else partial(_both, decided.apply, staged)
        if not parts and not decided.parts:
            apply()  # all of it is volatile
            done(None)
            return []
        return self._engine.stage([*parts, *decided.parts], done, purpose, encoded, apply)

    async def adopt(self, logs: Sequence[Log], fill: Fill, late: LateParts, staged: Effect) -> None:
        """commit() of any number of rows, which `fill` adds to the ends of `logs` in a thread of its own: they are
        written to segments beside the journal, and one frame with the parts that `late` gives decides over all of them.
        Readers are shown them in one turn. `staged` as in commit(). Not refused where the disk is low: ask promise()
        before. OSError if it fails; nothing has changed then. Not to be cancelled."""

        def decided(room: int) -> Late:
            parts, apply = late(room)
            return Late(parts, partial(_both, apply, staged))

        async with self._adopting.lock:
            future: asyncio.Future[None] = self._loop.create_future()
            refuse = partial(self._refuse, Purpose.SETTLE)
            await self._adopting.stage(logs, fill, decided, refuse, partial(resolve, future))
            self._commit_soon()
            await future

    async def append_raw(self, log: Log, data: Buffer, purpose: Purpose = Purpose.PUBLISH) -> None:
        """Append a batch that carries its own offsets and epoch, as a follower does."""
        await self._admission.admitted(purpose, len(data))
        self._refuse(purpose)
        await self._done(lambda done: self._engine.stage_raw(log, data, done, purpose))

    async def create(self, name: LogName, settings: LogSettings | None = None) -> Log:
        return (await self.create_many([(name, settings or LogSettings())]))[0]

    async def create_many(self, logs: Sequence[tuple[LogName, LogSettings]], parts: Sequence[Part] = ()) -> list[Log]:
        """All in one commit, with `parts` of other logs."""
        created: list[Log] = []
        await self._done(lambda done: created.extend(self._engine.stage_create(logs, done, parts)))
        return created

    async def change(self, log: Log, settings: LogSettings) -> None:
        await self.change_many([(log, settings)])

    async def change_many(self, changes: Sequence[tuple[Log, LogSettings]], parts: Sequence[Part] = ()) -> None:
        """All in one commit, with `parts` of other logs; in several if no frame holds the settings of so many logs, of
        which the first has the parts."""
        room = self.max_frame_bytes // 2
        for some in _pieces(changes, room):
            await self._done(partial(self._engine.stage_change, some, parts=parts))
            parts = ()

    async def change_different(self, wanted: Sequence[tuple[Log, LogSettings]]) -> None:
        """change_many() of those that have other settings."""
        if changes := [(log, settings) for log, settings in wanted if log.settings != settings]:
            logger.info("settings of logs follow the configuration logs=%d first=%s", len(changes), changes[0][0].name)
            await self.change_many(changes)

    async def delete(self, log: Log) -> None:
        await self.delete_many([log])

    async def delete_many(self, logs: Sequence[Log], parts: Sequence[Part] = (), staged: Effect = nothing) -> None:
        """All in one commit, with `parts` of other logs. `staged` is called when it can no longer be refused, in the
        turn of the call."""

        def stage(done: Done) -> None:
            self._engine.stage_delete_many(logs, done, parts)
            staged()

        await self._done(stage)

    async def trim(self, log: Log, start: int) -> None:
        """Records below `start` are gone; their files go as whole segments."""
        await self.edit(log, Edit(start=start))

    async def purge(self, log: Log) -> None:
        await self.edit(log, Edit(start=log.end))

    async def begin_epoch(self, log: Log, epoch: Epoch) -> None:
        """What is appended from now on carries the epoch."""
        await self.edit(log, Edit(epoch=epoch))

    async def truncate(self, log: Log, end: int) -> None:
        """Records at and above `end` are gone; their offsets will be given to others. For followers and repair only."""
        if not log.start <= end <= log.end:
            raise OffsetOutOfRange(log.name, end, log.start, log.end)
        await self.drain()
        if end == log.end:
            return
        found = self.reader.read(log, end, 1)
        first = batches.read_header(found[0]).base_offset if found else end
        at, head = (end, None) if first >= end else (first, batches.below_offset(found[0], end))
        await self._done(lambda done: self._engine.stage_truncate(log, end, at, head, done))

    async def edit(self, log: Log, edit: Edit) -> None:
        await self._done(lambda done: self._engine.stage_edit(log, edit, done))

    async def read(self, log: Log, offset: int, max_bytes: int) -> list[Buffer]:
        """Batches from the one that holds `offset` on, never past what is committed. The hot tail is read at once,
        files beside the loop."""
        if log.tail and offset >= log.tail[0].first:
            read = self.reader.read(log, offset, max_bytes)
        else:
            read = await self._beside(partial(self.reader.read, log, offset, max_bytes))
        self.metrics.read_bytes += sum([len(batch) for batch in read])
        return read

    async def offset_at_time(self, log: Log, timestamp: TimestampMs) -> Offset:
        return Offset(await self._beside(partial(self.reader.offset_at_time, log, timestamp)))

    async def _beside(self, look: Callable[[], T]) -> T:
        """In another thread; again and again where descriptors or memory lack."""
        while True:
            try:
                return await self._loop.run_in_executor(None, look)
            except OSError as error:
                if not can_pass(error) or self._closing.is_set():
                    raise
                telling.warn("read", "files cannot be read yet, tried again error=%s", error)
            await asyncio.sleep(_READ_AGAIN_S)

    async def drain(self) -> None:
        """Returns when everything staged before is committed, whatever its durability."""
        await self._done(self._engine.stage_barrier)

    async def checkpoint(self) -> None:
        """Returns when segments hold, durably, everything committed before."""
        await self.drain()
        wanted = self._engine.journal.synced_sequence
        while self._engine.keeper.checkpoint.first_sequence < wanted:
            self._refuse(Purpose.SETTLE)
            self._workers.want_checkpoint()
            await asyncio.sleep(0.005)

    async def show(self) -> None:
        """Returns when readers in other processes see what was durable before, or after a while where the disk is full
        or slow."""
        if not self._closed:
            shown: asyncio.Future[None] = self._loop.create_future()
            self._engine.keeper.asked.append(partial(_poster(self._loop), partial(resolve, shown, None)))
            self._workers.wake_keeper()
            await asyncio.wait([shown], timeout=_SHOWN_S)

    async def close(self) -> None:
        """Finish what is under way, write a checkpoint that says so, let go of the directory."""
        if self._closed:
            return
        self._closing.set()
        await asyncio.wait([self._housekeeping])
        if not self._is_failed:
            await self.drain()
        self._closed = True
        await self._loop.run_in_executor(None, self._stop)
        self._admission.admit_waiting()

    def retain(self, log: Log) -> None:
        """Retention of one log, now."""
        self._refuse(Purpose.SETTLE)
        self._housekeeper.retain_log(log)
        self._commit_soon()

    def let_go(self, log: Log) -> bool:
        """Give back the disk of a log that is settled to its end, if that is worth it; whether to look again."""
        if self._closing.is_set() or self._is_failed:
            return True
        is_waiting = self._housekeeper.let_go(log)
        self._commit_soon()
        return is_waiting

    async def keep_house(self) -> None:
        """Retention and compaction of every log, now. By themselves they come every `housekeeping_s`."""
        self._housekeeper.retain()
        self._commit_soon()
        while (task := self._housekeeper.plan()) is not None:
            try:
                compacted = await self._loop.run_in_executor(
                    None, self._housekeeper.perform, task, self._give_up_if_closing
                )
            except Closed:
                return
            except (OSError, MemoryError, PenstockError) as error:
                self._housekeeper.fail(task, error)
            else:
                try:
                    self._housekeeper.finish(task, compacted)
                except JournalFailed:
                    raise
                except (OSError, PenstockError) as error:
                    self._housekeeper.note_failure("compaction", task.log.name, error)
                self._commit_soon()

    async def _keep_house(self) -> None:
        while self._options.housekeeping_s > 0 and not self._is_failed:
            try:
                async with asyncio.timeout(self._options.housekeeping_s):
                    await self._closing.wait()
                return
            except TimeoutError:
                await self._keep_house_once()

    async def _keep_house_once(self) -> None:
        try:
            await self.keep_house()
        except JournalFailed:
            return  # every caller is told; there is no house to keep
        except (OSError, MemoryError, PenstockError) as error:
            self._housekeeper.note_failure("round", "", error)
        except Exception as error:
            logger.critical("housekeeping broke off", exc_info=True)
            self._engine.commit.fail(JournalFailed(f"housekeeping broke off: {type(error).__name__}: {error}"))

    def _give_up_if_closing(self) -> None:
        """Between two pieces of a compaction: closing does not wait for the whole of it."""
        if self._closing.is_set():
            raise Closed("the directory is being closed; the compaction will be done another time")

    def _stop(self) -> None:
        try:
            self._workers.stop()
        finally:
            self._table.close()
            self._engine.journal.close()
            self._engine.keeper.close()
            self.reader.maps.clear()
            self._lock.release()

    async def _done(self, stage: StageCall) -> None:
        self._refuse(Purpose.SETTLE)
        future: asyncio.Future[None] = self._loop.create_future()
        stage(partial(resolve, future))
        self._commit_soon()
        await future

    def refuse_publishes(self) -> None:
        """Raise what a publish would be refused with now: the disk is low, the journal failed, or it is closed."""
        self._refuse(Purpose.PUBLISH)

    def _refuse(self, purpose: Purpose) -> None:
        if self._closed:
            raise Closed("the directory was closed; open it again to go on")
        if self._engine.commit.failure is not None:
            raise self._engine.commit.failure
        if purpose is _PUBLISH:
            self._engine.refuse_if_low()

    @property
    def failure(self) -> JournalFailed | None:
        """Why nothing is committed any more; None while it is."""
        return self._engine.commit.failure

    @property
    def disk_low(self) -> DiskLow | None:
        """Why publishes are refused, if they are; asking counts as no refusal."""
        return self._engine.low

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def _is_failed(self) -> bool:
        return self._engine.commit.failure is not None


def _pieces(changes: Sequence[tuple[Log, LogSettings]], room: int) -> Iterator[list[tuple[Log, LogSettings]]]:
    """Those that so many bytes of the catalogue hold, one after the other."""
    some: list[tuple[Log, LogSettings]] = []
    size = 0
    for log, settings in changes:
        size += len(encode_declared(Declared(log.number, log.name, settings))) + _RECORD_BYTES
        if some and size > room:
            yield some
            some, size = [], 0
        some.append((log, settings))
    if some:
        yield some


def _is_heavy(parts: Sequence[RowsPart]) -> bool:
    return any(log.settings.compression and columns.bytes >= _HEAVY_BYTES for log, columns in parts)


def _encode(parts: Sequence[RowsPart]) -> list[bytearray]:
    return [encode(rows, log.settings.compression) for log, rows in parts]


def _both(first: Effect, second: Effect) -> None:
    first()
    second()


def resolve(future: asyncio.Future[None], error: PenstockError | None) -> None:
    """Tell whoever waits for a commit."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _poster(loop: asyncio.AbstractEventLoop) -> Post:
    """Reports of the threads, on the loop; after the loop has ended there is nobody to tell."""

    def post(call: Callable[[], None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call)

    return post
