"""The retained messages of one namespace."""

from __future__ import annotations

import asyncio
import secrets
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence

from penstock.broker.feed.stored import StoredBatch, StoredCache
from penstock.broker.sessions.followed import FollowedLog
from penstock.core.errors import InvalidArgument, OffsetOutOfRange
from penstock.core.ports import Buffer
from penstock.core.types import Purpose
from penstock.kernels import retained_tree, session_entries
from penstock.kernels import rows as row_kernel
from penstock.kernels.retained_tree import MAX_LEVELS, RetainedTree
from penstock.kernels.topics import check_filter
from penstock.log.columns import Columns, Spans
from penstock.log.journal.late import Late, Part, nothing
from penstock.log.partition import Log
from penstock.log.shard import Shard

# Looked at in one turn of the loop: about half a millisecond.
_NODES_IN_TURN = 5_000
_READ_BYTES = 64 << 10
# Segments are mapped to be read; who reads all of them is not to have all of them in memory.
_MAPPED_BYTES = 32 << 20
_TOMBSTONE_BYTES = 32 << 10
# The index knows seconds.
_SHIFT_MS = 1000
_EXPIRY_LAYOUT = 2
_WALK_IS_DONE, _WALK_BEGINS = 2, 4


class _Busy(Exception):
    """A publish is under way that a tombstone would overtake."""


class RetainedSpace:
    """Used from the loop. The index follows what is committed, and knows in running time when messages expire; a
    message lies where the log has it."""

    def __init__(self, shard: Shard, log: Log) -> None:
        self.log = log
        self._shard = shard
        self._tree = RetainedTree(secrets.randbits(64))
        self._followed = FollowedLog(shard, log, StoredCache(1 << 20, 1))

    def restore(self) -> None:
        """Read the whole log; from then on follow it."""
        for data in self._shard.readable(self.log, self.log.start):
            self._apply(StoredBatch.of(data))
        self._followed.applied = self.log.visible_end
        self._followed.follow(self._apply)

    def close(self) -> None:
        self.log.on_commit = None

    @property
    def count(self) -> int:
        return len(self._tree)

    @property
    def message_bytes(self) -> int:
        """Topics, properties and values."""
        return self._tree.message_bytes()

    @property
    def index_bytes(self) -> int:
        """What the index takes of memory."""
        return self._tree.memory_bytes()

    def find(self, topic: bytes) -> int:
        """Where the topic's message lies; -1 if it has none."""
        return self._tree.find(topic)

    def parts(self, columns: Columns, rows: array[int]) -> list[Part]:
        """For the frame of the publish that sets them: these rows ('i', rising), the last one of each topic; an empty
        value takes the topic's message away. InvalidArgument for a topic of too many levels, or none."""
        index, topics = columns.topic_index, columns.topics
        if index is None or topics is None:
            raise InvalidArgument("a retained message needs a topic")
        if not rows:
            return []
        last = {index[row]: row for row in rows}
        for topic in last:
            _check(columns, topics, topic)
        mine = columns.select(array("i", sorted(last.values())))
        assert mine.topic_index is not None and mine.topics is not None
        mine.key = Spans(*(_picked(bounds, mine.topic_index) for bounds in (mine.topics.starts, mine.topics.ends)))
        mine.producer_id = mine.producer_epoch = mine.base_sequence = 0
        return [(self.log, mine)]

    async def matched(self, filter: bytes, limit: int) -> array[int]:
        """Where the messages lie whose topics match, at most `limit`, in no order. Others have their turn in between;
        what changes meanwhile may be in it or not. InvalidArgument if it is no filter."""
        check_filter(filter)
        found, stack = array("q"), retained_tree.begin()
        starts, ends = _levels(filter)
        self._tree.pin()
        try:
            while len(found) < limit and stack[0] != _WALK_IS_DONE:
                if found or stack[0] != _WALK_BEGINS:
                    await asyncio.sleep(0)
                out = array("q", bytes(8 * _NODES_IN_TURN))
                found += out[: self._tree.advance(filter, starts, ends, stack, _NODES_IN_TURN, out)]
        finally:
            self._tree.unpin()
        return found[:limit]

    async def read(self, offsets: Sequence[int]) -> AsyncIterator[tuple[StoredBatch, array[int]]]:
        """Batches and the numbers of the rows in them. Left out is what expired, and what was replaced or taken away
        meanwhile."""
        wanted = array("q", sorted(offsets))
        at = size = 0
        while at < len(wanted):
            try:
                read = await self._shard.read(self.log, max(wanted[at], self.log.start), _READ_BYTES)
            except OffsetOutOfRange:
                continue  # the log's start has moved
            if not read:
                return
            size += sum(map(len, read))
            if size > _MAPPED_BYTES:
                size = 0
                self._shard.reader.maps.clear()
            for stored in map(StoredBatch.of, read):
                stop = bisect_left(wanted, stored.end, at)
                rows = self._current(stored, wanted[at:stop])
                at = stop
                if rows:
                    yield stored, rows
                if at == len(wanted):
                    return

    async def keep_up(self, now: int) -> None:
        """Take away what expired: look through all messages, a part in each turn of the loop."""
        out, first = array("i", bytes(4 * (_NODES_IN_TURN + 1))), 1
        while first:
            count = self._tree.expired(first, _NODES_IN_TURN, now // 1000, out)
            expired = [(self._tree.topic_of(node), self._tree.offset_of(node)) for node in out[1 : count + 1]]
            first = out[0]
            while expired:
                stop = _that_fit(expired)
                await self._take_away(expired[:stop])
                del expired[:stop]
            await asyncio.sleep(0)

    async def _take_away(self, expired: list[tuple[bytes, int]]) -> None:
        """A tombstone for each; if publishes keep coming, another time: one that is under way would be taken away with
        what it replaces."""

        def late(room: int) -> Late:
            if self.log.end != self._followed.applied:
                raise _Busy
            topics = [topic for topic, offset in expired if self._tree.find(topic) == offset]
            if not topics:
                raise _Busy
            return Late([(self.log, Columns.of([b""] * len(topics), keys=topics, topics=topics))], nothing)

        for _ in range(3):
            try:
                await self._shard.commit((), Purpose.SETTLE, late)
            except _Busy:
                await self._shard.drain()
            else:
                return

    def _apply(self, stored: StoredBatch) -> None:
        timeline = self._shard.timeline
        shift = timeline.wall() - timeline.now()
        body = _in_running_time(stored, shift) if abs(shift) >= _SHIFT_MS else stored.batch.body
        self._tree.apply(body, stored.batch.layout, len(stored), stored.offsets)

    def _current(self, stored: StoredBatch, wanted: array[int]) -> array[int]:
        rows = array("i", bytes(4 * len(wanted)))
        session_entries.rows_of(wanted, stored.offsets, rows)
        count = self._tree.keep_current(stored.batch.body, stored.batch.layout, rows, stored.offsets)
        expired = stored.expired(self._shard.timeline.now_at(stored.batch.header.base_timestamp), 0)
        if expired is None:
            return rows[:count]
        return array("i", [row for row in rows[:count] if not expired[row]])


def _in_running_time(stored: StoredBatch, shift: int) -> Buffer:
    """A batch whose expiries are by a wall clock that is so much ahead, with other ones."""
    body, first = stored.batch.body, stored.batch.layout[_EXPIRY_LAYOUT]
    if first < 0:
        return body
    changed = bytearray(body)
    expiries = memoryview(changed)[first : first + 8 * len(stored)].cast("q")
    for row, time in enumerate(expiries):
        expiries[row] = max(time - shift, 1) if time else 0
    return changed


def _that_fit(expired: list[tuple[bytes, int]]) -> int:
    """How many of the first tombstones a frame takes well: at least one."""
    size = 0
    for number, (topic, _) in enumerate(expired):
        size += 2 * len(topic)
        if number and size > _TOMBSTONE_BYTES:
            return number
    return len(expired)


def _levels(filter: bytes) -> tuple[array[int], array[int]]:
    starts, ends, at = array("i"), array("i"), 0
    for level in filter.split(b"/"):
        starts.append(at)
        ends.append(at + len(level))
        at += len(level) + 1
    return starts, ends


def _picked(values: array[int], numbers: array[int]) -> array[int]:
    out = array("i", bytes(4 * len(numbers)))
    row_kernel.take_int32(values, numbers, out)
    return out


def _check(columns: Columns, topics: Spans, number: int) -> None:
    topic = bytes(columns.source[topics.starts[number] : topics.ends[number]])
    if not topic:
        raise InvalidArgument("a retained message needs a topic")
    if topic.count(b"/") >= MAX_LEVELS:
        raise InvalidArgument(
            f"a retained message's topic has at most {MAX_LEVELS} levels, this one has {topic.count(b'/') + 1}"
        )
