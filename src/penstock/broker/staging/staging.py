"""Staged commit: rows are stored beside their queues, and one frame makes all of an epoch's rows messages, once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakValueDictionary

from penstock.broker.declaring import Declaring
from penstock.broker.dropping import drop_oldest
from penstock.broker.publishing import passing
from penstock.broker.queue import Queue
from penstock.broker.settling import Settling
from penstock.broker.staging.book import Book, columns_of, part_of
from penstock.broker.staging.epochs import Epochs
from penstock.broker.staging.pipelines import Pipelines
from penstock.broker.staging.placing import (
    Placement,
    Stage,
    Target,
    frame_bytes,
    parts_of,
    placements,
    places_of,
    targets_of,
)
from penstock.broker.staging.records import (
    BookKey,
    Change,
    CommitRecord,
    EpochKey,
    PipelineKey,
    PipelineRecord,
    StagedPlace,
    StagedRange,
    StagePlace,
    StageRecord,
)
from penstock.broker.staging.stages import Stages
from penstock.core.errors import InvalidArgument, NoSuchLog, NoSuchQueue, StageGone
from penstock.core.types import Purpose
from penstock.log.columns import Columns
from penstock.log.encoded import Rows
from penstock.log.importing import Importer
from penstock.log.shard import Part, Shard

logger = logging.getLogger("penstock.broker.staging")

_MAX_NAME_BYTES = 255
_MAX_EPOCH = 1 << 62
# What a batch costs beside its rows.
_BATCH_BYTES = 256


@dataclass(frozen=True, slots=True)
class Committed:
    """Where the rows of an epoch are. `is_repeated`: it was committed before, and nothing was done now."""

    placed: tuple[StagedPlace, ...]
    is_repeated: bool = False


class _Wanted(NamedTuple):
    """What a commit says."""

    key: EpochKey
    ranges: Sequence[StagedRange]
    pipeline: str
    is_reset: bool


class Staging:
    """Used from the loop."""

    def __init__(self, shard: Shard, declaring: Declaring, settling: Settling, now: Callable[[], int]) -> None:
        self._shard, self._settling, self._now = shard, settling, now
        self._book = Book(shard)
        self._epochs = Epochs()
        self._pipelines = Pipelines()
        self._stages = Stages(shard, declaring.by_incarnation.get)
        self._stale: list[BookKey] = []
        """in the book, and nowhere else any more"""
        self._locks: WeakValueDictionary[EpochKey, asyncio.Lock] = WeakValueDictionary()
        self._under_way: set[asyncio.Task[Committed]] = set()
        self.commits = self.repeated_commits = 0

    def restore(self) -> None:
        """What the book says, once queues are there."""
        for key, record in self._book.read().items():
            if isinstance(key, EpochKey) and isinstance(record, CommitRecord):
                self._stale += self._epochs.remember(key, record)
            elif isinstance(key, PipelineKey) and isinstance(record, PipelineRecord):
                self._pipelines.restore(key, record)
            elif isinstance(key, StagePlace) and isinstance(record, StageRecord):
                self._stale += [] if self._stages.restore(key, record) else [key]

    async def close(self) -> None:
        """Commits under way are finished."""
        if self._under_way:
            await asyncio.wait(list(self._under_way))

    @property
    def stage_count(self) -> int:
        return len(self._stages.living)

    @property
    def staged_bytes(self) -> int:
        return self._stages.size_bytes

    # Staging

    async def stage(
        self, queue: Queue, columns: Rows, *, writer: str = "", partition: int | None = None
    ) -> StagedRange:
        """Store rows that nobody sees until they are committed; durable when this returns. They live for 24 h after
        the last rows that the same writer staged (without a writer: after their own). Refused as a publish is, and
        DiskLow unless twice their size is free; their commit cannot be refused for want of room. TooLarge for more
        than a frame holds: stage them in several calls. Waits where a publish would."""
        _check_name("a writer's name", writer, is_optional=True)
        queue.check(columns)
        if partition is not None:
            queue.existing(partition)
        book, size = await self._book.log(), columns.bytes + _BATCH_BYTES
        self._stages.reserve(queue, columns.count, size)
        staged: list[StagedRange] = []
        try:
            record = StageRecord(queue.incarnation, columns.count, size, self._now(), writer, partition)
            await self._store(record, columns, book_part=lambda change: part_of(book, [change]), staged=staged)
        finally:
            if not staged:
                self._stages.release(queue, columns.count, size)
        queue.used_ms = self._now()
        return staged[0]

    async def _store(
        self, record: StageRecord, columns: Rows, book_part: Callable[[Change], Part], staged: list[StagedRange]
    ) -> None:
        """Rows and their record in one frame; `staged` says what it is from the moment on at which it has offsets."""
        side = await self._stages.enter()

        def late() -> Sequence[Part]:
            place = StagePlace(side.log.number, side.log.end)
            self._stages.add(side, place, record)
            staged.append(StagedRange(*place, record.rows, record.size_bytes))
            return [book_part((place, record))]

        try:
            await self._shard.commit([(side.log, columns)], Purpose.PUBLISH, late)
        finally:
            if not staged:
                self._stages.leave(side)

    def targets(self, ranges: Sequence[StagedRange]) -> list[Queue]:
        """The queues that a commit of these would publish to, those of stages that are not there left out; for those
        who have to ask whether that is allowed."""
        records = [self._stages.living.get(staged.place) for staged in ranges]
        queues = [self._stages.queue(record) for record in records if record is not None]
        return list(dict.fromkeys(queue for queue in queues if queue is not None))

    def epochs(self, query: str) -> list[int]:
        """Those that are known to be committed, rising."""
        return self._epochs.known(query)

    def places(self, query: str, epoch: int) -> tuple[StagedPlace, ...]:
        """Where the rows of an epoch went that was committed before; for those who may be told only of some queues."""
        known = self._epochs.find(EpochKey(query, epoch))
        return () if known is None else known.placed

    async def abandon(self, ranges: Sequence[StagedRange]) -> int:
        """Collect them now, but for what is being committed; how many there were."""
        gone = self._stages.drop(self._stages.untaken(ranges))
        if gone:
            await self._book.forget(gone)
        return len(gone)

    # Committing

    async def commit(
        self,
        query: str,
        epoch: int,
        ranges: Sequence[StagedRange],
        *,
        pipeline: str = "",
        reset: bool = False,
    ) -> Committed:
        """All rows become messages, in all their partitions at once, durably; or none does. A key that was committed
        before is answered as it was then, and what is staged for it now is let go. StageGone if a range was collected
        or committed otherwise, EpochForgotten for an epoch too old to be known. A pipeline's name belongs to the query
        that first committed under it: PipelineKnown for another one, unless `reset` gives it the name. What the writer
        `<query>/<epoch>` has staged beside these ranges, such as tasks that were tried again, is let go with it."""
        _check_name("a query id", query)
        _check_name("a pipeline's name", pipeline, is_optional=True)
        if not 0 <= epoch < _MAX_EPOCH:
            raise InvalidArgument(f"epoch {epoch} is not between 0 and {_MAX_EPOCH}")
        wanted = _Wanted(EpochKey(query, epoch), ranges, pipeline, reset)
        task = asyncio.ensure_future(self._commit_once(wanted))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        # Whoever gives up waiting leaves a commit that is finished all the same.
        return await asyncio.shield(task)

    async def _commit_once(self, wanted: _Wanted) -> Committed:
        key, ranges = wanted.key, wanted.ranges
        async with self._locks.setdefault(key, asyncio.Lock()):
            if (known := self._epochs.find(key)) is not None:
                await self._shard.drain()
                await self.abandon(ranges)
                self._let_go(key)
                self.repeated_commits += 1
                return Committed(known.placed, is_repeated=True)
            self._epochs.refuse(key)
            if wanted.pipeline:
                self._pipelines.refuse(wanted.pipeline, key.query, wanted.is_reset)
            taken = self._stages.take(ranges)
            try:
                committed = await self._commit_stages(wanted, [self._stage_of(*each) for each in taken.items()])
            finally:
                self._stages.give_back(taken)
            self._let_go(key)
            return committed

    def _let_go(self, key: EpochKey) -> None:
        """Of what was staged for an epoch and is not in it; the book says so with the next upkeep."""
        self._stale += self._stages.drop(self._stages.of_writer(f"{key.query}/{key.epoch}"))

    def _stage_of(self, place: StagePlace, record: StageRecord) -> Stage:
        queue = self._stages.queue(record)
        if queue is None:
            raise StageGone(str(place), "their queue was deleted")
        return Stage(place, record, queue, self._stages.side_log(place))

    async def _commit_stages(self, wanted: _Wanted, stages: Sequence[Stage]) -> Committed:
        queues = list(dict.fromkeys(stage.queue for stage in stages))
        async with passing(queues):
            for queue in queues:
                await self._make_room(queue, sum([s.record.rows for s in stages if s.queue is queue]))
            try:
                placed = await self._placed(wanted, stages)
            except NoSuchLog as error:
                raise StageGone(str(stages[0].place), "a queue of the commit was deleted meanwhile") from error
        for stage in stages:
            stage.queue.published += stage.record.rows
        self.commits += 1
        logger.debug("epoch committed query=%s epoch=%d stages=%d", *wanted.key, len(stages))
        return Committed(placed)

    async def _make_room(self, queue: Queue, rows: int) -> None:
        if queue.is_deleted:
            raise NoSuchQueue(queue.name)
        queue.used_ms = self._now()
        if queue.drops_oldest:
            await drop_oldest(queue, rows, self._settling)

    async def _placed(self, wanted: _Wanted, stages: Sequence[Stage]) -> tuple[StagedPlace, ...]:
        """In one frame, if that is large enough; else beside the journal."""
        limit = self._shard.max_frame_bytes * 255 // 256
        if sum([stage.record.size_bytes for stage in stages]) <= limit:
            placed: list[Placement] = []
            for stage in stages:
                [batch, *_] = await self._shard.read(stage.side_log, stage.place.first, 1)
                placed += placements(stage, batch)
            if frame_bytes(wanted.key, stages, placed) <= limit:
                return await self._in_one_frame(wanted, stages, placed)
        return await self._beside_the_journal(wanted, stages)

    async def _in_one_frame(
        self, wanted: _Wanted, stages: Sequence[Stage], placed: Sequence[Placement]
    ) -> tuple[StagedPlace, ...]:
        for queue, partition, _ in placed:
            await queue.unit(partition)
        book = await self._book.log()
        decided: list[StagedPlace] = []

        def late() -> Sequence[Part]:
            decided.extend(places_of([(queue, partition, mine.count) for queue, partition, mine in placed]))
            return [(book, self._decide(wanted, stages, tuple(decided)))]

        await self._shard.commit(parts_of(placed), Purpose.SETTLE, late)
        return tuple(decided)

    async def _beside_the_journal(self, wanted: _Wanted, stages: Sequence[Stage]) -> tuple[StagedPlace, ...]:
        logs = {target: (await target.queue.unit(target.partition)).data for target in targets_of(stages)}
        book, reader = await self._book.log(), self._shard.reader
        rows: dict[Target, int] = {}
        decided: list[StagedPlace] = []

        def fill(importer: Importer) -> None:
            for stage in stages:
                for queue, partition, mine in placements(stage, reader.read(stage.side_log, stage.place.first, 1)[0]):
                    target = Target(queue, partition)
                    importer.add(logs[target], mine)
                    rows[target] = rows.get(target, 0) + mine.count

        def late() -> Sequence[Part]:
            decided.extend(places_of([(*target, count) for target, count in rows.items()]))
            return [(book, self._decide(wanted, stages, tuple(decided)))]

        await self._shard.adopt(list(logs.values()), fill, late)
        return tuple(decided)

    def _decide(self, wanted: _Wanted, stages: Sequence[Stage], placed: tuple[StagedPlace, ...]) -> Columns:
        """In the turn in which the frame is staged, whose record in the book this is."""
        record = CommitRecord(self._now(), placed)
        forgotten = self._epochs.remember(wanted.key, record)
        gone = self._stages.drop([stage.place for stage in stages])
        old: list[BookKey] = [*forgotten, *gone]
        bound = self._pipelines.bind(wanted.pipeline, wanted.key.query) if wanted.pipeline else []
        return columns_of([(wanted.key, record), *bound, *[(each, None) for each in old]])

    # Collecting

    async def keep_up(self, now_ms: int) -> None:
        """Collect what was abandoned, forget queries that are over, delete side logs that hold nothing any more."""
        abandoned = self._stages.drop(self._stages.abandoned(now_ms))
        if abandoned:
            logger.info("stages collected, nobody committed them count=%d", len(abandoned))
        expired = self._epochs.expire(now_ms)
        unused = self._pipelines.forget({key.query for key in expired})
        stale: list[BookKey] = [*self._stale, *abandoned, *expired, *unused]
        self._stale = []
        if stale:
            await self._book.forget(stale)
        await self._stages.delete_empty()


def _check_name(what: str, name: str, *, is_optional: bool = False) -> None:
    size = len(name.encode(errors="surrogatepass"))
    if (not name and not is_optional) or size > _MAX_NAME_BYTES or not name.isprintable():
        raise InvalidArgument(f"{what} has 1 to {_MAX_NAME_BYTES} bytes and nothing unprintable: {name[:40]!r}")
