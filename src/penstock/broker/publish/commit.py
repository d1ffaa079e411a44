"""From requests to one staged frame, or a refusal before anything has effect."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic

from penstock.broker.publish.admission import Dropped, Obstacle, Planned, Reservation
from penstock.broker.publish.placement import Sent, Steps, TakenMeanwhile, place, remembered, take_back
from penstock.broker.publish.request import (
    Limits,
    ProducerCall,
    Published,
    PublishRequest,
    Put,
    PutFields,
    RoutedFields,
)
from penstock.broker.publish.routing import lay_out
from penstock.broker.queues.queue import Placed, Queue
from penstock.core.errors import PenstockError
from penstock.core.metrics import Histogram
from penstock.core.types import Purpose
from penstock.kernels import takers
from penstock.log.columns import Columns
from penstock.log.encoded import Rows
from penstock.log.engine import Done
from penstock.log.journal.large_commit import Fill
from penstock.log.journal.late import LateParts, Part
from penstock.log.journal.spread import Spread
from penstock.log.partition import Log
from penstock.log.shard import RowsPart, Shard

_NOTHING_PLANNED: Planned = {}
# A member that is looked up costs as much as a call.
_ASKED, _PROMISED, _NONE = Limits.ASKED, Limits.PROMISED, Limits.NONE


class Frame(Reservation):
    """Rows that were let in and placed, all in one turn of the loop, on their way into the journal."""

    __slots__ = (
        "_latency",
        "asked",
        "begun_s",
        "offsets",
        "parts",
        "places",
        "routed",
        "sent",
        "spread",
        "steps",
        "told",
    )

    def __init__(self, limits: Limits, is_kept: bool, latency: Histogram) -> None:
        Reservation.__init__(self, limits, is_kept)  # super() takes twice as long to find it
        self._latency = latency
        self.asked: Rows | None = None
        self.routed: RoutedFields | None = None
        """what the queues are asked for"""
        self.begun_s = monotonic()
        self.spread: Spread | None = None
        """instead of parts, where one put is all there is"""
        self.parts: list[RowsPart] = []
        self.places: list[tuple[list[int], array[int]]] = []
        """of each put, the partitions and how many rows each of them gets"""
        self.steps: Steps = []
        self.sent: Sequence[Sent] = ()
        """what a producer sent to each queue"""
        self.offsets: Sequence[int] = ()
        """of the parts, once it is staged"""
        self.told: Done | None = None
        """what becomes of it"""

    def add(self, put: PutFields, planned: Planned, now: int, is_alone: bool) -> Obstacle | None:
        """Raises what the queue refuses."""
        queue, rows = put[0], put[1]
        if self.limits is _ASKED:
            queue.check(rows)
            self.asked = rows
        if (obstacle := self.take(queue, rows.count, planned, now)) is not None:
            return obstacle
        numbers, counts, rows = place(put, self.steps)
        logs: list[Log] = []
        for number in numbers:
            if (unit := queue.units.get(number)) is None:
                return Obstacle(partial(queue.make, numbers))
            logs.append(unit.data)
        self.places.append((numbers, counts))
        if is_alone and isinstance(rows, Columns):
            self.spread = Spread(rows, counts, logs)
        elif len(logs) == 1:
            self.parts.append((logs[0], rows))
        else:
            assert isinstance(rows, Columns)
            self.parts += Spread(rows, counts, logs).parts()
        return None

    def value_bytes(self, queue: Queue) -> int:
        """Of the rows of one put, or of those that are routed."""
        if (rows := self.asked) is not None:
            return sum(rows.value.ends) - sum(rows.value.starts) if isinstance(rows, Columns) else rows.bytes
        assert self.routed is not None
        columns, targets, *_ = self.routed
        mine = columns.of_topics(targets.by_queue()[queue])
        return sum(mine.value.ends) - sum(mine.value.starts)

    def join(self, others: Sequence[Part]) -> None:
        """A spread is one frame by itself; beside others its parts are."""
        if self.spread is not None:
            self.parts += self.spread.parts()
            self.spread = None
        self.parts += others

    def give_back(self) -> None:
        if not self.is_over:
            super().give_back()
            take_back(self.steps)

    def __enter__(self) -> None:
        """Around its commit."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.done(None) if kind is None else self.give_back()

    def done(self, error: PenstockError | None) -> None:
        """What was staged is committed, or nobody knows whether."""
        self.is_over = True
        is_committed = error is None
        if rows := takers.leave(self.counts, is_committed, is_committed and self.limits is not _NONE):
            self._latency.observe(monotonic() - self.begun_s, rows)
        if self.told is not None:
            self.told(error)

    def placed(self) -> list[Placed]:
        """Where the rows of all puts went, one behind the other."""
        if len(self.places) == 1:
            numbers, counts = self.places[0]
            return list(map(Placed, numbers, self.offsets, counts))
        return [placed for several in self.placed_by_put() for placed in several]

    def placed_by_put(self) -> Iterator[list[Placed]]:
        offsets = iter(self.offsets)
        for numbers, counts in self.places:
            yield [Placed(number, next(offsets), count) for number, count in zip(numbers, counts, strict=True)]


class Intake:
    """Used from the loop."""

    def __init__(self, shard: Shard, now: Callable[[], int], dropped: Dropped) -> None:
        self._shard, self._now, self._dropped = shard, now, dropped
        self.latency = Histogram()
        """of messages, from the call to their commit"""

    # In this turn of the loop

    def try_stage(
        self, puts: Sequence[PutFields], done: Done, others: Sequence[Part] = (), routed: RoutedFields | None = None
    ) -> Frame | None:
        """The frame, staged: what the rows refer to may change afterwards. `done` is called when it is committed, or
        with what went wrong. None if it would have to wait, PenstockError if it is refused: nothing has changed
        then."""
        # Those of one put, or of rows that are routed, are distinct queues, and nobody else comes in between.
        is_kept = len(puts) > (routed is None)
        frame = self._prepared(Frame(_ASKED, is_kept, self.latency), puts, others, _NOTHING_PLANNED, routed)
        if isinstance(frame, Obstacle):
            return None
        is_staged = False
        try:
            is_staged = self.stage_now(frame, done)
        finally:
            if not is_staged:
                frame.give_back()
        return frame if is_staged else None

    def stage_now(self, frame: Frame, told: Done) -> bool:
        """Whether the frame is staged; else commit() it, or give it back."""
        frame.told = told
        wanted = frame.parts if frame.spread is None else frame.spread
        staged = partial(frame.staged, self._dropped) if frame.is_kept else None
        offsets = self._shard.stage_now(wanted, frame.done, staged)
        if offsets is None:
            return False
        frame.offsets = offsets
        return True

    def _prepared(
        self,
        frame: Frame,
        puts: Sequence[PutFields],
        others: Sequence[Part],
        planned: Planned,
        routed: RoutedFields | None,
    ) -> Frame | Obstacle:
        """The frame with all rows let in and placed; no step of it waits."""
        now, is_whole = self._now(), False
        is_alone = not others and len(puts) == (routed is None)
        try:
            for put in puts:
                obstacle = frame.add(put, planned, now, is_alone)
                if obstacle is not None:
                    return obstacle
            if routed is not None:
                frame.asked, frame.routed = None, routed
                made = lay_out(routed, frame, frame.steps, self._shard.max_frame_bytes, planned, now)
                if isinstance(made, Obstacle):
                    return made
                frame.spread = made
            is_whole = True
        finally:
            if not is_whole:
                frame.give_back()
        if not is_alone:
            frame.join(others)
        return frame

    # With waiting

    async def stage(self, request: PublishRequest) -> list[Published]:
        """Where the rows of each put went, when all is committed. Raises what is refused: nothing has changed then."""
        begun_s, planned = monotonic(), Planned()
        while True:
            frame = self._requested(request, planned)
            if isinstance(frame, Obstacle):
                await frame.wait()
                continue
            frame.begun_s = begun_s
            late = request.late
            if any(sent.put is not None for sent in frame.sent):
                late = partial(remembered, frame.sent, self._now)
            try:
                await self.commit(frame, late, request.purpose)
            except TakenMeanwhile:
                continue
            if any(sent.has_to_wait for sent in frame.sent):
                await self._shard.drain()  # what came before may not be committed yet
            return _published(request.puts, frame)

    def _requested(self, request: PublishRequest, planned: Planned) -> Frame | Obstacle:
        frame = Frame(request.limits, True, self.latency)
        if request.producer is not None:
            return self._sent(frame, request, request.producer, planned)
        return self._prepared(frame, request.puts, request.others, planned, request.routed)

    def _sent(
        self, frame: Frame, request: PublishRequest, producer: ProducerCall, planned: Planned
    ) -> Frame | Obstacle:
        """What the queues have not taken before of a producer's rows."""
        sent: list[Sent] = []
        for put in request.puts:
            found = Sent.of(put, producer)
            if isinstance(found, Obstacle):
                return found
            sent.append(found)
        fresh = [each.put for each in sent if each.put is not None]
        prepared = self._prepared(frame, fresh, request.others, planned, None)
        if prepared is frame:
            frame.sent, places = sent, iter(frame.places)
            for each in sent:
                each.note_place(*next(places)) if each.put is not None else None
        return prepared

    async def commit(self, frame: Frame, late: LateParts | None = None, purpose: Purpose = Purpose.PUBLISH) -> None:
        """Returns when the frame is committed. Who waits for room in the journal, or for a large batch that is
        compressed beside the loop, keeps the room in queues, and comes in turn."""
        frame.told, staged, spread = None, partial(frame.staged, self._dropped), frame.spread
        with frame:
            if purpose is Purpose.SETTLE and frame.limits is _ASKED:
                self._shard.refuse_publishes()
            if spread is not None and late is None and purpose is Purpose.PUBLISH:
                frame.offsets = await self._shard.commit_spread(spread, staged)
            elif (parts := frame.parts if spread is None else spread.parts()) or late is not None:
                frame.offsets = await self._shard.commit(parts, purpose, late, staged)

    async def adopt(self, frame: Frame, logs: Sequence[Log], fill: Fill, late: LateParts) -> None:
        """commit() of any number of rows, as Shard.adopt()."""
        with frame:
            await self._shard.adopt(logs, fill, late, partial(frame.staged, self._dropped))

    # For rows that were promised room

    async def reserved(self, counts: Mapping[Queue, int]) -> Frame:
        """One for rows that were promised room, so many to each queue. Commit it, adopt, or give it back."""
        planned = Planned()
        while isinstance(found := self._reserved(counts, planned), Obstacle):
            await found.wait()
        return found

    def _reserved(self, counts: Mapping[Queue, int], planned: Planned) -> Frame | Obstacle:
        frame = Frame(_PROMISED, True, self.latency)
        try:
            for queue, count in counts.items():
                if (obstacle := frame.take(queue, count, planned, self._now())) is not None:
                    frame.give_back()
                    return obstacle
        except BaseException:
            frame.give_back()
            raise
        return frame


def _published(puts: Sequence[Put], frame: Frame) -> list[Published]:
    placed = frame.placed_by_put()
    if not frame.sent:
        return [Published(put.queue, mine) for put, mine in zip(puts, placed, strict=True)]
    return [
        sent.published(put.queue, [] if sent.put is None else next(placed))
        for put, sent in zip(puts, frame.sent, strict=True)
    ]
