"""Staged commit: rows are stored beside their queues, and one frame makes all of an epoch's rows messages, once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from penstock.broker.catalogue.declarations import Declaring
from penstock.broker.publish.commit import Frame, Intake
from penstock.broker.queues.queue import Queue
from penstock.broker.staging.book import Book
from penstock.broker.staging.epochs import Epochs
from penstock.broker.staging.owners import OPERATOR, Owner
from penstock.broker.staging.pipelines import Pipelines
from penstock.broker.staging.placement import (
    Carried,
    Placement,
    Stage,
    Target,
    carried_placements,
    frame_bytes,
    parts_of,
    placements,
    places_of,
    targets_of,
)
from penstock.broker.staging.prefetch import fetched_ahead
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
from penstock.broker.staging.stages import Stages, query_of
from penstock.core.errors import InvalidArgument, NoSuchLog, NotAuthorised, PenstockError, StageGone
from penstock.core.types import Purpose
from penstock.log.encoded import Encoded, Rows
from penstock.log.journal.late import Late, Part
from penstock.log.partition import Log
from penstock.log.segments.side_segments import Importer
from penstock.log.shard import Shard
from penstock.log.upkeep.faults import Telling

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
    by: Owner
    is_single: bool
    carried: Sequence[Carried] = ()


class Staging:
    """Used from the loop."""

    def __init__(self, shard: Shard, intake: Intake, declaring: Declaring, now: Callable[[], int]) -> None:
        self._shard, self._intake, self._now = shard, intake, now
        self._book = Book(shard)
        self._epochs = Epochs()
        self._pipelines = Pipelines()
        self._telling = Telling(logger)
        self._stages = Stages(shard, declaring.by_incarnation.get)
        self._stale: list[BookKey] = []
        """in the book, and nowhere else any more"""
        self._locks: WeakValueDictionary[EpochKey, asyncio.Lock] = WeakValueDictionary()
        self._under_way: set[asyncio.Task[Committed]] = set()
        self._tidying: asyncio.Task[None] | None = None
        self._is_clock_set = False
        """since the times in the book were last written"""
        shard.timeline.watch(self._note_jump)
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

    def _note_jump(self) -> None:
        self._is_clock_set = True

    async def close(self) -> None:
        """Commits under way are finished, and what they leave is tidied."""
        if self._under_way:
            await asyncio.wait(list(self._under_way))
        if self._tidying is not None:
            await self._tidying

    @property
    def stage_count(self) -> int:
        return len(self._stages.living)

    @property
    def staged_bytes(self) -> int:
        return self._stages.size_bytes

    # Staging

    async def stage(
        self,
        queue: Queue,
        columns: Rows,
        *,
        writer: str = "",
        partition: int | None = None,
        by: Owner = OPERATOR,
    ) -> StagedRange:
        """Store rows that nobody sees until they are committed; durable when this returns. They live for 24 h after
        the last rows that the same writer staged (without a writer: after their own). Refused as a publish is, and
        DiskLow unless twice their size is free; their commit cannot be refused for want of room. TooLarge for more
        than a frame holds: stage them in several calls. Waits where a publish would. A writer `<query>/<epoch>` stages
        for a query: NotAuthorised if that is somebody else's."""
        _check_name("a writer's name", writer, is_optional=True)
        if writer:
            self._require_query(query_of(writer), by)
        queue.check(columns)
        if partition is not None:
            queue.existing(partition)
        book, size = await self._book.log(), columns.bytes + _BATCH_BYTES
        self._stages.reserve(queue, columns.count, size)
        staged: list[StagedRange] = []
        try:
            record = StageRecord(queue.incarnation, columns.count, size, self._now(), writer, partition, by.mark)
            await self._store(record, columns, book_part=lambda change: self._book.part(book, [change]), staged=staged)
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

        def late(room: int) -> Late:
            place = StagePlace(side.log.number, side.log.end)

            def apply() -> None:
                self._stages.add(side, place, record)
                staged.append(StagedRange(*place, record.rows, record.size_bytes))

            return Late([book_part((place, record))], apply)

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

    def queues_of(self, query: str) -> list[tuple[str, str]]:
        """Namespace and name of the queues that epochs of a query went to, where the query is nobody's; for those who
        have to ask whether it may be taken."""
        newest = self._epochs.newest(query)
        return [] if newest is None or newest[1].owner else self._epochs.queues(query)

    def queues_under(self, pipeline: str) -> list[tuple[str, str]]:
        """The same of the query that commits under a name, where the name is nobody's."""
        query = self._pipelines.query(pipeline)
        return [] if query is None or self._pipelines.owner(pipeline) else self._epochs.queues(query)

    def require_owner(self, query: str, by: Owner) -> None:
        """NotAuthorised for a query that is somebody else's."""
        self._require_query(query, by)

    async def release(self, query: str, pipeline: str, by: Owner) -> None:
        """They are nobody's from now on, and of who uses them next; what is staged for the query is let go. For who
        administers the namespace of the owner: NotAuthorised for others."""
        for mark in (self._owner(query), self._pipelines.owner(pipeline)):
            namespace = mark.partition("/")[0] or by.namespace
            if not by.administers(namespace):
                raise NotAuthorised(f"{by.name} may not release query {query!r}: that needs the role admin")
        changes: list[Change] = [(place, None) for place in self._stages.drop(self._stages.of_query(query))]
        if (newest := self._epochs.newest(query)) is not None and newest[1].owner:
            key, record = newest
            record = msgspec.structs.replace(record, owner="")
            self._epochs.remember(key, record)
            changes.append((key, record))
        changes += self._pipelines.release(pipeline)
        await self._book.write(changes)

    def _owner(self, query: str) -> str:
        """The mark of whose it is: of its last commit, or of who stages for it."""
        newest = self._epochs.newest(query)
        return (newest[1].owner if newest is not None else "") or self._stages.owner(query)

    def _require_query(self, query: str, by: Owner) -> None:
        by.require(self._owner(query), f"query {query!r}")

    def _require_stages(self, ranges: Sequence[StagedRange], by: Owner) -> None:
        for staged in ranges:
            record = self._stages.living.get(staged.place)
            if record is not None:
                by.require(record.owner, f"the stage {staged.place}")

    async def abandon(self, ranges: Sequence[StagedRange], *, by: Owner = OPERATOR) -> int:
        """Collect them now, but for what is being committed; how many there were. NotAuthorised, with nothing
        collected, if one is somebody else's."""
        self._require_stages(ranges, by)
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
        by: Owner = OPERATOR,
        single: bool = False,
        rows: Sequence[tuple[Queue, Encoded]] = (),
    ) -> Committed:
        """All rows become messages, in all their partitions at once, durably; or none does. A key that was committed
        before is answered as it was then, and what is staged for it now is let go. StageGone if a range was collected
        or committed otherwise, EpochForgotten for an epoch too old to be known. A pipeline's name belongs to the query
        that first committed under it: PipelineKnown for another one, unless `reset` gives it the name. `single`: the
        query has this one epoch and will not stage its rows again; it is remembered for a day at most. What the writer
        `<query>/<epoch>` has staged beside these ranges, such as tasks that were tried again, is let go with it. A
        query belongs to who staged or committed for it first, a name to who first used it, a stage to who wrote it:
        NotAuthorised for others than that login and the administrators of its namespace. `rows` come with the commit,
        each with its queue, and become messages before those of the ranges; they are refused as a publish is, and
        nothing is committed then."""
        _check_name("a query id", query)
        _check_name("a pipeline's name", pipeline, is_optional=True)
        if not 0 <= epoch < _MAX_EPOCH:
            raise InvalidArgument(f"epoch {epoch} is not between 0 and {_MAX_EPOCH}")
        carried = [Carried(queue, each, f"{query}/{epoch}", at) for at, (queue, each) in enumerate(rows, epoch)]
        wanted = _Wanted(EpochKey(query, epoch), ranges, pipeline, reset, by, single, carried)
        task = asyncio.ensure_future(self._commit_once(wanted))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        # Whoever gives up waiting leaves a commit that is finished all the same.
        return await asyncio.shield(task)

    async def _commit_once(self, wanted: _Wanted) -> Committed:
        key, ranges = wanted.key, wanted.ranges
        async with self._locks.setdefault(key, asyncio.Lock()):
            self._require_query(key.query, wanted.by)
            self._require_stages(ranges, wanted.by)
            if (known := self._epochs.find(key)) is not None:
                await self._shard.drain()
                await self.abandon(ranges)
                self._let_go(key)
                self.repeated_commits += 1
                return Committed(known.placed, is_repeated=True)
            self._refuse(wanted)
            taken = self._stages.take(ranges)
            try:
                stages = [self._stage_of(*each) for each in taken.items()]
                with self._stages.room_for(wanted.carried) as release:
                    committed = await self._commit_stages(wanted, stages, release)
            finally:
                self._stages.give_back(taken)
            self._let_go(key)
            self._tidy_soon()
            return committed

    def _tidy_soon(self) -> None:
        """A side log that goes before the next checkpoint is never written to a segment."""
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.ensure_future(self._tidy())

    async def _tidy(self) -> None:
        try:
            await self._stages.delete_empty()
        except PenstockError as error:
            self._telling.warn("tidy", "side logs not deleted yet, tried again with the next upkeep error=%s", error)

    def _refuse(self, wanted: _Wanted) -> None:
        """What another query's commit may change meanwhile: asked before anything is done, and again in the turn in
        which the frame is staged."""
        self._require_query(wanted.key.query, wanted.by)
        self._epochs.refuse(wanted.key, wanted.is_single, self._now())
        if wanted.pipeline:
            self._pipelines.refuse(wanted.pipeline, wanted.key.query, wanted.is_reset, wanted.by)

    def _let_go(self, key: EpochKey) -> None:
        """Of what was staged for an epoch and is not in it; the book says so with the next upkeep."""
        self._stale += self._stages.drop(self._stages.of_writer(f"{key.query}/{key.epoch}"))

    def _stage_of(self, place: StagePlace, record: StageRecord) -> Stage:
        queue = self._stages.queue(record)
        if queue is None:
            raise StageGone(str(place), "their queue was deleted")
        return Stage(place, record, queue, self._stages.side_log(place))

    async def _commit_stages(self, wanted: _Wanted, stages: Sequence[Stage], release: Callable[[], None]) -> Committed:
        """`release`: of the room of rows that come with the commit, called when they have their place."""
        counts: dict[Queue, int] = {}
        sources: list[Stage | Carried] = [*wanted.carried, *stages]
        for source in sources:
            counts[source.queue] = counts.get(source.queue, 0) + source.rows
        frame = await self._intake.reserved(counts)
        try:
            placed = await self._placed(wanted, stages, frame, release)
        except NoSuchLog as error:
            what = str(stages[0].place) if stages else "the rows of the commit"
            raise StageGone(what, "a queue of the commit was deleted meanwhile") from error
        finally:
            frame.give_back()
        self.commits += 1
        logger.debug("epoch committed query=%s epoch=%d stages=%d", *wanted.key, len(stages))
        return Committed(placed)

    async def _placed(
        self, wanted: _Wanted, stages: Sequence[Stage], frame: Frame, release: Callable[[], None]
    ) -> tuple[StagedPlace, ...]:
        """In one frame, if that is large enough; else beside the journal."""
        limit = self._shard.max_frame_bytes * 255 // 256
        size = sum([each.size_bytes for each in wanted.carried]) + sum([stage.size_bytes for stage in stages])
        if size <= limit:
            placed = list(carried_placements(wanted.carried))
            for stage in stages:
                [batch, *_] = await self._shard.read(stage.side_log, stage.place.first, 1)
                placed += placements(stage, batch)
            if frame_bytes(wanted.key, stages, placed) <= limit:
                return await self._in_one_frame(wanted, stages, frame, release, placed)
        return await self._beside_the_journal(wanted, stages, frame, release)

    async def _in_one_frame(
        self,
        wanted: _Wanted,
        stages: Sequence[Stage],
        frame: Frame,
        release: Callable[[], None],
        placed: Sequence[Placement],
    ) -> tuple[StagedPlace, ...]:
        for queue, partition, _ in placed:
            await queue.unit(partition)
        book = await self._book.log()
        decided: list[StagedPlace] = []

        def late(room: int) -> Late:
            decided[:] = places_of([(queue, partition, mine.count) for queue, partition, mine in placed])
            return self._decide(book, wanted, stages, release, tuple(decided))

        frame.parts += parts_of(placed)
        await self._intake.commit(frame, late, Purpose.SETTLE)
        return tuple(decided)

    async def _beside_the_journal(
        self, wanted: _Wanted, stages: Sequence[Stage], frame: Frame, release: Callable[[], None]
    ) -> tuple[StagedPlace, ...]:
        targets = targets_of([*wanted.carried, *stages])
        logs = {target: (await target.queue.unit(target.partition)).data for target in targets}
        book, reader = await self._book.log(), self._shard.reader
        rows: dict[Target, int] = {}
        decided: list[StagedPlace] = []

        def read(stage: Stage) -> list[Placement]:
            return placements(stage, reader.read(stage.side_log, stage.place.first, 1)[0])

        def fill(importer: Importer) -> None:
            staged = chain.from_iterable(fetched_ahead(read, stages))
            for queue, partition, mine in chain(carried_placements(wanted.carried), staged):
                target = Target(queue, partition)
                importer.add(logs[target], mine)
                rows[target] = rows.get(target, 0) + mine.count

        def late(room: int) -> Late:
            decided[:] = places_of([(*target, count) for target, count in rows.items()])
            return self._decide(book, wanted, stages, release, tuple(decided))

        await self._intake.adopt(frame, list(logs.values()), fill, late)
        return tuple(decided)

    def _decide(
        self,
        book: Log,
        wanted: _Wanted,
        stages: Sequence[Stage],
        release: Callable[[], None],
        placed: tuple[StagedPlace, ...],
    ) -> Late:
        """In the turn in which the frame is staged, whose record in the book this is."""
        self._refuse(wanted)
        owner = self._owner(wanted.key.query) or wanted.by.mark
        record = CommitRecord(self._now(), placed, owner, wanted.is_single)
        places = [stage.place for stage in stages]
        forgotten = self._epochs.forgotten_for(wanted.key, wanted.is_single)
        ended = self._epochs.left_without(forgotten, wanted.key)
        gone: list[BookKey] = [*forgotten, *self._stages.there(places), *self._pipelines.of_queries(ended)]
        bound = self._pipelines.binding(wanted.pipeline, wanted.key.query, owner) if wanted.pipeline else []

        def apply() -> None:
            self._epochs.remember(wanted.key, record)
            self._stages.drop(places)
            release()
            self._pipelines.forget(ended)
            for key, pipeline in bound:
                self._pipelines.restore(key, pipeline)

        changes: list[Change] = [*[(each, None) for each in gone], (wanted.key, record), *bound]
        return Late([self._book.part(book, changes)], apply)

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
        if self._is_clock_set:
            self._is_clock_set = False
            await self._book.write([*self._epochs.last()])
        await self._stages.delete_empty()


def _check_name(what: str, name: str, *, is_optional: bool = False) -> None:
    size = len(name.encode(errors="surrogatepass"))
    if (not name and not is_optional) or size > _MAX_NAME_BYTES or not name.isprintable():
        raise InvalidArgument(f"{what} needs 1 to {_MAX_NAME_BYTES} printable bytes: {name[:40]!r}")
