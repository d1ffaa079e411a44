"""What leaves a queue without a consumer: messages that are too old when they are the next to be handed out, those that
are too many, and the queue itself when nobody wants it any more.

Group `default` is the one whose messages count. They are handed to nobody, set aside, and moved as dead letters are."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias

from penstock.broker.alarms import Alarms
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.group import DEFAULT_GROUP, Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.core.errors import OffsetOutOfRange, PenstockError
from penstock.core.ports import Buffer
from penstock.core.timeline import Timeline
from penstock.kernels.window import EntryState
from penstock.log.header import EXPIRY, FLAGS_AT
from penstock.queues.cursor import NO_DEADLINE, Cursor
from penstock.queues.deadletter import Reason

Leaving: TypeAlias = "tuple[Reason, array[int]]"

logger = logging.getLogger("penstock.broker.heads")

# No consumer has this number.
_NOBODY: Final = 0
_ANY_NUMBER: Final = 1 << 40
# Set aside at once: what is moved in a frame or two.
_MOST_AT_ONCE = 16_384
# Looked at in one turn of the loop, at opening.
_LOOKED_AT_ONCE = 100
# After a disk that failed; the move itself is tried again by who moves.
_AGAIN_MS = 10_000


class Letters(Protocol):
    def dead_letter(self, group: Group, unit: Unit, offsets: array[int], reason: Reason) -> asyncio.Future[None]: ...


class Heads:
    """Of all queues that ask for it. Used from the loop."""

    def __init__(
        self,
        alarms: Alarms,
        timeline: Timeline,
        letters: Letters,
        queues: Mapping[int, Queue],
        delete: Callable[[Queue], Awaitable[None]],
    ) -> None:
        """`queues`: by their incarnation. Alarms know nothing else: a queue that is gone is not kept by them."""
        self.alarms, self.timeline, self.letters = alarms, timeline, letters
        self._queues, self._delete = queues, delete
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_closed = False

    def configured(self, queue: Queue) -> None:
        """It was made, or its settings have changed."""
        settings, head = queue.settings, queue.head if isinstance(queue.head, Head) else None
        is_wanted = settings.looks_at_head or settings.expires_after_ms is not None
        if is_wanted and head is None:
            queue.head = head = Head(self, queue)
            queue.listening[head] = None
        elif head is not None and not is_wanted:
            head.end()
        if head is not None and is_wanted:
            head.look_at_all()
        if settings.expires_after_ms is not None:
            self._look_at_use(queue.incarnation, self.timeline.now())

    async def begin(self, queues: Iterable[Queue]) -> None:
        """At opening, when all is there."""
        for number, queue in enumerate(queues):
            if number % _LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
            self.configured(queue)

    def _look_at_use(self, incarnation: int, now: int) -> None:
        """A queue that nobody uses goes; while somebody does, it is looked at again when it could go at the
        earliest."""
        queue = self._queues.get(incarnation)
        after = None if queue is None else queue.settings.expires_after_ms
        if queue is None or after is None or queue.is_deleted or self.is_closed:
            return
        is_wanted = any(group.is_wanted for group in queue.groups.values())
        used = [group.last_used_ms for group in queue.groups.values()]
        due = now + after if is_wanted else max(queue.made_ms, queue.declared_ms, *used) + after
        if due > now:
            self.alarms.set((incarnation, "use"), due, partial(self._look_at_use, incarnation))
            return
        logger.info("queue deleted, nobody used it queue=%s", queue.name)
        self.start(self._go(queue))

    def ring(self, incarnation: int, partition: int, now: int) -> None:
        """The message at the head of a partition may be over."""
        queue = self._queues.get(incarnation)
        if queue is not None and isinstance(queue.head, Head):
            queue.head.ring(partition)

    async def _go(self, queue: Queue) -> None:
        if not queue.is_deleted:
            await self._delete(queue)

    def start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("messages that are over stay where they are error=%s", error)

    async def finish(self) -> None:
        """What is under way is done; nothing begins any more."""
        self.is_closed = True
        await self.idle()

    async def idle(self) -> None:
        """What is under way is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)


class Head:
    """Of one queue."""

    __slots__ = ("__weakref__", "_armed", "_expiring", "_heads", "_leaving", "_queue", "_reading", "_returned", "_seen")

    def __init__(self, heads: Heads, queue: Queue) -> None:
        self._heads, self._queue = heads, queue
        self._armed: dict[int, int] = {}
        """when somebody looks at a partition"""
        self._leaving: dict[int, deque[Leaving]] = {}
        """what is moved, and waits for that"""
        self._reading: set[int] = set()
        self._returned: dict[int, None] = {}
        self._expiring = {partition for partition, unit in queue.units.items() if unit.data.end > unit.start}
        """partitions that may hold messages with an expiry of their own"""
        self._seen: dict[int, int] = {}
        """up to where batches were looked at for that"""

    def notify_all(self, partitions: Sequence[int]) -> None:
        """There is more at the end, which changes nothing at the head, unless it is too much. Or the queue is gone."""
        if self._queue.is_deleted:
            self.end()
            return
        for partition in partitions:
            if self._may_leave(partition) and (partition not in self._armed or self._queue.settings.limits_ready):
                self.look(partition)

    def end(self) -> None:
        """Nothing refers to it any more: the garbage collector need not come for it."""
        self._queue.listening.pop(self, None)
        self._queue.head = None
        for partition in self._armed:
            self._heads.alarms.drop((self._queue.incarnation, partition, "head"))
        self._heads.alarms.drop((self._queue.incarnation, "use"))
        self._armed.clear()

    def _may_leave(self, partition: int) -> bool:
        """Most queues have neither a limit nor messages with an expiry: that costs a look at what came."""
        settings, unit = self._queue.settings, self._queue.units.get(partition)
        if not settings.looks_at_head:
            return False
        if settings.limits.message_ttl_ms is not None or settings.limits_ready or unit is None:
            return True
        if partition not in self._expiring:
            seen = self._seen.get(partition, 0)
            batches = unit.batches_from(seen) if seen < unit.data.end else []
            is_known = bool(batches) and batches[0].first <= seen and batches[-1].end == unit.data.end
            is_unknown = seen < unit.data.end and not is_known
            if is_unknown or any(_has_expiry(batch.data) for batch in batches):
                self._expiring.add(partition)
            self._seen[partition] = unit.data.end
        return partition in self._expiring

    def returned(self, partitions: Sequence[int]) -> None:
        """Something may be ready again there, which may be an older message than the one that was."""
        wanted = [partition for partition in partitions if self._may_leave(partition)]
        if wanted and not self._returned:
            asyncio.get_running_loop().call_soon(self._look_at_returned)
        self._returned.update(dict.fromkeys(wanted))

    def _look_at_returned(self) -> None:
        returned, self._returned = self._returned, {}
        for partition in returned:
            self.look(partition)

    def look_at_all(self) -> None:
        for partition, unit in list(self._queue.units.items()):
            if unit.data.end > unit.start:
                self.look(partition)

    def look(self, partition: int) -> None:
        """Messages came, or came back, or others are at the head now. What has to leave is nobody's at once, and moved
        when what left before it is."""
        unit = self._queue.units.get(partition)
        group = self._queue.groups.get(DEFAULT_GROUP)
        is_over = self._queue.is_deleted or self._heads.is_closed
        if unit is None or group is None or partition in self._reading or is_over:
            return
        missing = self._take(group, unit, None)
        if missing is not None:
            self._reading.add(partition)
            self._heads.start(self._read(group, unit, missing))

    def _take(self, group: Group, unit: Unit, read: StoredBatch | None) -> int | None:
        """The offset that has to be read before more can be taken."""
        leaving = self._leaving.setdefault(unit.partition, deque())
        while sum([len(offsets) for _, offsets in leaving]) < _MOST_AT_ONCE:
            taking, reason = _Taking(group, unit, read), Reason.MAX_LENGTH
            missing = taking.excess(self._excess(group))
            if missing is None and not taking.offsets:
                reason = Reason.EXPIRED
                missing = taking.expired()
            if not taking.offsets:
                self._arm(unit, taking.due_ms)
                window = group.cursor(unit).window
                if not window.pending and window.next >= unit.data.end:
                    self._expiring.discard(unit.partition)
                    self._seen[unit.partition] = unit.data.end
                return missing
            leaving.append((reason, taking.offsets))
            if len(leaving) == 1:
                self._heads.start(self._move(group, unit, leaving))
        return None

    def _excess(self, group: Group) -> tuple[int, int]:
        """Messages and bytes that are too many."""
        limits = self._queue.settings.limits
        if not self._queue.drops_oldest or not self._queue.settings.limits_ready:
            return 0, 0
        count = 0 if limits.max_ready is None else group.ready() - limits.max_ready
        size = 0 if limits.max_ready_bytes_ is None else self._queue.ready_bytes() - limits.max_ready_bytes_
        return max(count, 0), max(size, 0)

    async def _move(self, group: Group, unit: Unit, leaving: deque[Leaving]) -> None:
        """One after the other: they are dead letters in the order in which they left."""
        group.notify(unit.partition)
        while leaving:
            reason, offsets = leaving[0]
            await asyncio.wait([self._heads.letters.dead_letter(group, unit, offsets, reason)])
            leaving.popleft()
        self.look(unit.partition)

    async def _read(self, group: Group, unit: Unit, offset: int) -> None:
        missing: int | None = None
        try:
            stored = await _stored(group, unit, offset)
            if not self._heads.is_closed:
                missing = self._take(group, unit, stored)
        except PenstockError:
            self._arm(unit, self._heads.timeline.now() + _AGAIN_MS)
            raise
        finally:
            self._reading.discard(unit.partition)
        if missing is not None and missing == offset:
            self._arm(unit, self._heads.timeline.now() + _AGAIN_MS)
        elif missing is not None:
            self.look(unit.partition)

    def _arm(self, unit: Unit, due_ms: int | None) -> None:
        if due_ms is None:
            self._armed.pop(unit.partition, None)
            return
        incarnation = self._queue.incarnation
        key = incarnation, unit.partition, "head"
        if self._armed.get(unit.partition, due_ms + 1) > due_ms:
            self._armed[unit.partition] = due_ms
            self._heads.alarms.set(key, due_ms, partial(self._heads.ring, incarnation, unit.partition))

    def ring(self, partition: int) -> None:
        self._armed.pop(partition, None)
        self.look(partition)


def _has_expiry(data: Buffer) -> bool:
    return bool(data[FLAGS_AT] & EXPIRY)


async def _stored(group: Group, unit: Unit, offset: int) -> StoredBatch | None:
    """What lies there. What is gone is passed over, as consumers do."""
    try:
        return await unit.stored(offset)
    except OffsetOutOfRange:
        cursor = group.cursor(unit)
        cursor.tally.lost += cursor.settle(offset, unit.start)
        cursor.pass_to(unit.start)
        return None


class _Taking:
    """One look at the head of a partition: what is taken there is held by nobody, and set aside."""

    def __init__(self, group: Group, unit: Unit, read: StoredBatch | None) -> None:
        self.group, self.unit, self.cursor = group, unit, group.cursor(unit)
        self._read = read
        self.offsets = array("q")
        self.due_ms: int | None = None
        """when the one at the head is too old"""

    def excess(self, wanted: tuple[int, int]) -> int | None:
        """So many messages and bytes, whichever is more; the offset that has to be read first, if one has."""
        count, size = wanted
        while (count > 0 or size > 0) and len(self.offsets) < _MOST_AT_ONCE:
            offset, stored = self._head()
            if stored is None or offset is None:
                return offset
            row = stored.row_from(offset)
            wanted_rows = max(count, _rows_of(stored, row, size))
            before = len(self.offsets)
            self._take(stored, offset, wanted_rows)
            taken = self.offsets[before:]
            if not taken:
                break
            count -= len(taken)
            size -= _bytes_of(stored, taken) if size > 0 else 0
        return None

    def expired(self) -> int | None:
        """Those at the head that are too old; the offset that has to be read first, if one has."""
        if not self.group.expires_at_head:
            return None
        while len(self.offsets) < _MOST_AT_ONCE:
            offset, stored = self._head()
            if stored is None or offset is None:
                return offset
            now = self.group.now()
            marks = self.group.too_old_among(stored, now)
            row = stored.row_from(offset)
            if marks is None or not marks[row]:
                self.due_ms = self.group.too_old_at(stored, row, now)
                return None
            following = marks.find(0, row)
            if not self._take(stored, offset, (len(marks) if following < 0 else following) - row, marks):
                return None
        return None

    def _head(self) -> tuple[int | None, StoredBatch | None]:
        """The next message to be handed out, and its batch: without one there is no message, or it has to be read."""
        window = self.cursor.window
        while True:
            offset = window.first_ready if window.ready > 0 else window.next
            if window.ready == 0 and offset >= self.group.stop_at(self.unit):
                return None, None
            stored = self.unit.stored_near(offset)
            if stored is None and self._read is not None and self._read.first <= offset < self._read.end:
                stored = self._read
            if stored is None:
                return offset, None
            row = stored.row_from(offset)
            if row < len(stored) and stored.offsets[row] == offset:
                return offset, stored
            # Compaction took it, or offsets are missing there.
            following = stored.offsets[row] if row < len(stored) else stored.end
            self.cursor.settle(offset, following)
            self.cursor.pass_to(min(following, self.group.stop_at(self.unit)))
            if window.ready == 0 and window.next < following:
                return None, None

    def _take(self, stored: StoredBatch, first: int, rows: int, marks: bytearray | None = None) -> int:
        """Up to so many rows of a batch, from its offset `first` on, or of those that came back: only what is marked.
        How many."""
        cursor, before = self.cursor, len(self.offsets)
        if cursor.window.ready:
            self._take_again(cursor, stored, rows, marks)
        else:
            self._take_new(cursor, stored, rows)
        taken = self.offsets[before:]
        cursor.set_aside(taken)
        return len(taken)

    def _take_again(self, cursor: Cursor, stored: StoredBatch, rows: int, marks: bytearray | None) -> None:
        waiting = cursor.window.offsets(EntryState.READY, rows)
        if marks is not None:
            waiting = array("q", _leading(stored, waiting, marks))
        offsets, counts = array("q", bytes(8 * len(waiting))), array("i", bytes(4 * len(waiting)))
        now = self.group.now()
        given = cursor.hand_out_again(stored.end, _NOBODY, len(waiting), now, NO_DEADLINE, offsets, counts)
        cursor.tally.redelivered -= given
        self.offsets.extend(offsets[:given])

    def _take_new(self, cursor: Cursor, stored: StoredBatch, rows: int) -> None:
        group, window = self.group, cursor.window
        row, stop = stored.row_from(window.next), stored.row_from(group.stop_at(self.unit))
        picked = array("i", bytes(4 * max(min(rows, stop - row), 0)))
        skip, now = group.skipped(stored, group.now()), group.now()
        keys = group.keys(stored)
        given = cursor.hand_out(
            stored.offsets, keys, skip, row, stop, _NOBODY, len(picked), now, NO_DEADLINE, _ANY_NUMBER, picked
        )
        cursor.tally.delivered -= given
        if window.stopped_row >= len(stored):
            cursor.pass_to(stored.end)
        self.offsets.extend([stored.offsets[picked[i]] for i in range(given)])


def _leading(stored: StoredBatch, offsets: array[int], marks: bytearray) -> list[int]:
    """Those of the batch up to the first that is not marked."""
    found: list[int] = []
    for offset in offsets:
        row = stored.row_from(offset)
        if offset < stored.first or row >= len(marks) or not marks[row]:
            break
        found.append(offset)
    return found


def _rows_of(stored: StoredBatch, row: int, size: int) -> int:
    """How many rows from one on have so many bytes of values, or all that are left."""
    count = 0
    while size > 0 and row + count < len(stored):
        size -= len(stored.batch.value(row + count))
        count += 1
    return count


def _bytes_of(stored: StoredBatch, offsets: array[int]) -> int:
    return sum([len(stored.batch.value(stored.row_from(offset))) for offset in offsets])
