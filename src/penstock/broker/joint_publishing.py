"""Small publishes of many publishers, in one frame: what a commit costs is by frames, hardly by messages."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from penstock.broker.publisher import Publisher
from penstock.broker.queue import Queue
from penstock.core.errors import OutcomeUnknown, PenstockError
from penstock.core.types import Durability
from penstock.log.columns import Columns, Spans
from penstock.log.engine import Done
from penstock.log.partition import Log
from penstock.log.shard import Shard
from penstock.log.spread import Spread

# A frame of that size gains nothing from more.
_ENOUGH_BYTES = 256 << 10
# What rows take beside their values and topics: mostly the header of a batch, at most one for each publish.
_BESIDE_BYTES = 256


class _Lane:
    """Rows for one log, over the bytes of all."""

    __slots__ = ("ends", "starts", "topics")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.topics: list[int] = []


class _Joint:
    """What is to be one frame."""

    __slots__ = ("begun_s", "chunks", "frame_bytes", "lanes", "queues", "rows", "size_bytes", "topics", "waiting")

    def __init__(self) -> None:
        self.begun_s = monotonic()
        self.lanes: dict[Log, _Lane] = {}
        self.chunks: list[bytes] = []
        self.rows = self.size_bytes = 0
        self.frame_bytes = 0
        """at most, once it is a frame"""
        self.topics: dict[bytes, int] = {}
        self.queues: dict[Queue, int] = {}
        """how many rows each gets; their gates were passed"""
        self.waiting: list[Done] = []

    def add(self, log: Log, data: bytes, starts: Sequence[int], ends: Sequence[int], topics: Sequence[bytes]) -> None:
        lane = self.lanes.get(log)
        if lane is None:
            lane = self.lanes[log] = _Lane()
        at, numbers = self.size_bytes, self.topics
        lane.starts += [start + at for start in starts]
        lane.ends += [end + at for end in ends]
        lane.topics += [numbers.setdefault(topic, len(numbers)) for topic in topics]
        self.chunks.append(data)
        self.size_bytes += len(data)
        self.rows += len(starts)

    def spread(self) -> Spread:
        starts, ends, topics = array("i"), array("i"), array("i")
        for lane in self.lanes.values():
            starts.extend(lane.starts)
            ends.extend(lane.ends)
            topics.extend(lane.topics)
        source, dictionary = self._source()
        columns = Columns(self.rows, source, Spans(starts, ends), topic_index=topics, topics=dictionary)
        counts = array("i", [len(lane.starts) for lane in self.lanes.values()])
        return Spread(columns, counts, list(self.lanes))

    def _source(self) -> tuple[bytes, Spans]:
        """The bytes of all rows, then the topics."""
        places, at = array("i"), self.size_bytes
        for topic in self.topics:
            places.append(at)
            at += len(topic)
        return b"".join([*self.chunks, *self.topics]), Spans(places, array("i", [*places[1:], at]))


class JointPublishing:
    """Used from the loop. What was taken in one turn of it is staged when the turn is over, or at flush()."""

    def __init__(self, shard: Shard, now: Callable[[], int], took: Callable[[float, int], None]) -> None:
        """`took` is told since when so many messages were under way that are committed now."""
        self._shard, self._now, self._took = shard, now, took
        self._limit_bytes = min(_ENOUGH_BYTES, shard.max_frame_bytes // 2)
        self._joints: dict[Durability, _Joint] = {}
        self._is_called = False
        self._late: set[asyncio.Task[None]] = set()

    @property
    def is_late(self) -> bool:
        """Whether something that was taken has to wait: who publishes meanwhile has to stand in line."""
        return bool(self._late)

    def take(
        self,
        queue: Queue,
        publisher: Publisher,
        data: bytes,
        starts: Sequence[int],
        ends: Sequence[int],
        topics: Sequence[bytes],
        done: Done,
    ) -> bool:
        """Rows without a key, each with its topic, that lie in `data` from `starts` to `ends`. `done` is called with
        None when they are committed, with OutcomeUnknown if nobody knows, with another error if nothing was stored.
        False, and nothing has happened, if they cannot be taken as they are: somebody else will say why."""
        unit = queue.units.get(queue.unkeyed_partition(publisher))
        size = len(data) + sum(map(len, topics)) + _BESIDE_BYTES
        if unit is None or size > self._limit_bytes or self._late:
            return False
        joint = self._joint(unit.data.settings.durability, size)
        if not self._shard.admits_now(unit.data, joint.frame_bytes + size):
            return False
        if not self._is_let_in(joint, queue, starts, ends):
            return False
        joint.frame_bytes += size
        joint.add(unit.data, data, starts, ends, topics)
        joint.waiting.append(done)
        if not self._is_called:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._turn_is_over)
        return True

    def _joint(self, level: Durability, size: int) -> _Joint:
        """One that has room for so much."""
        joint = self._joints.get(level)
        if joint is not None and joint.frame_bytes + size > self._limit_bytes:
            self.flush()
            joint = None
        if joint is None:
            joint = self._joints[level] = _Joint()
        return joint

    def _is_let_in(self, joint: _Joint, queue: Queue, starts: Sequence[int], ends: Sequence[int]) -> bool:
        """Whether the queue takes the rows; then they are counted as expected."""
        count, limit = len(starts), queue.settings.limits.max_message_size_bytes
        if queue.is_deleted or max([end - start for start, end in zip(starts, ends, strict=True)]) > limit:
            return False
        if not queue.has_room(count):
            return False
        is_new = queue not in joint.queues
        if is_new and not queue.gate.enter_now():
            return False
        if not queue.admit(count):
            if is_new:
                queue.gate.leave()
            return False
        joint.queues[queue] = joint.queues.get(queue, 0) + count
        queue.expected += count
        return True

    def _turn_is_over(self) -> None:
        self._is_called = False
        self.flush()

    def flush(self) -> None:
        """Stage what was taken; what its publishers send from now on comes behind it."""
        if not self._joints:
            return
        joints, self._joints = self._joints, {}
        for joint in joints.values():
            if joint.rows:
                self._stage(joint)

    def _stage(self, joint: _Joint) -> None:
        now = self._now()
        for queue, count in joint.queues.items():
            queue.expected -= count
            queue.used_ms = now
        spread = joint.spread()
        try:
            if self._shard.stage_now(spread, partial(self._done, joint)) is not None:
                return
        except PenstockError as error:
            self._done(joint, error)
            return
        except Exception:
            self._done(joint, OutcomeUnknown("staging broke off"))
            raise
        # Somebody was let in meanwhile, and there is no more room; or took the turn of one of the logs.
        task = asyncio.get_running_loop().create_task(self._stage_late(joint, spread))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _stage_late(self, joint: _Joint, spread: Spread) -> None:
        try:
            await self._shard.commit_spread(spread)
        except PenstockError as error:
            self._done(joint, error)
        else:
            self._done(joint, None)

    def _done(self, joint: _Joint, error: PenstockError | None) -> None:
        is_stored = error is None or isinstance(error, OutcomeUnknown)
        for queue, count in joint.queues.items():
            queue.gate.leave()
            queue.published += count if is_stored else 0
        if error is None:
            self._took(joint.begun_s, joint.rows)
        for done in joint.waiting:
            done(error)
