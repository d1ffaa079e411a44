"""Moving messages that a group has given up on to the queue or the exchange for dead letters: one frame with their
settlement."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from penstock.broker.feed.stored import StoredBatch
from penstock.broker.letters.moving import Bundle, Exchange, Letters, Moved, to_exchange, to_queue
from penstock.broker.publish.commit import Intake
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import Limits, PublishRequest
from penstock.broker.publish.routes import Routes
from penstock.broker.queues.group import Group
from penstock.broker.queues.ledger import Ledger, Statement
from penstock.broker.queues.partitioned import PartitionedQueue
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.broker.webhooks.webhooks import Webhooks
from penstock.core.errors import InvalidArgument, NoSuchQueue, OffsetOutOfRange
from penstock.core.types import Purpose
from penstock.kernels import rows
from penstock.kernels.amqp_death import Deaths
from penstock.kernels.letters import Gathered, Said
from penstock.kernels.window import Window
from penstock.log.batch import encode, seal
from penstock.log.columns import Columns
from penstock.log.journal.late import Late
from penstock.log.upkeep.faults import Telling
from penstock.queues.cursor import Cursor
from penstock.queues.deadletter import NOTHING_SAID, DeadLetter, Reason, from_properties, said
from penstock.queues.names import MessageId
from penstock.queues.settings import Overflow

logger = logging.getLogger("penstock.broker.dead_letters")

# What a letter takes in a frame beside its bytes, at most: a batch of its own, and its settlement.
_LETTER_BYTES = 256
# Of what was handed out and is not in the state log: if it is more, it goes there in a frame before.
_MANY_OFFSETS = 64
# The loop has others to serve: these take some 5 ms.
_MOST_ROWS = 8192
# Reasons for which messages leave without anybody having looked at them: not worth a line in the log.
_QUIETLY: Final = (Reason.EXPIRED, Reason.MAX_LENGTH)


class _SettledMeanwhile(Exception):
    """A letter of the frame was settled otherwise while it was prepared."""


class DeadLetters:
    """`queue_for` gives the dead-letter queue of that name, made if need be. Used from the loop."""

    def __init__(
        self,
        intake: Intake,
        routes: Routes,
        ledger: Ledger,
        webhooks: Webhooks,
        publisher: Publisher,
        queue_for: Callable[[PartitionedQueue, str], Awaitable[Queue]],
        max_frame_bytes: int,
        wall: Callable[[], int],
    ) -> None:
        self._wall = wall
        self._intake, self._routes, self._ledger, self._webhooks = intake, routes, ledger, webhooks
        self._publisher, self._queue_for, self._frame_bytes = publisher, queue_for, max_frame_bytes
        self._telling = Telling(logger)

    async def move(self, group: Group, unit: Unit, offsets: array[int], reason: Reason, detail: str) -> None:
        """A move never fails for a limit: of the dead-letter queue, or of a frame, of which it takes as many as it
        needs. Where there is no such queue, and no exchange, the messages are dropped and counted."""
        wanted = offsets if rows.rises(offsets) else array("q", sorted(set(offsets)))
        if not group.queue.settings.has_dead_letters:
            await self._drop(group, unit, wanted, reason)
            return
        at = 0
        while at < len(wanted):
            letters = self._begun(group, unit, reason, detail)
            at = await self._gather(group, unit, wanted, at, letters)
            if letters.offsets:
                await self._move(group, unit, letters, reason)

    async def bury(self, queue: Queue, columns: Columns) -> None:
        """What a full queue refuses and keeps as dead letters, where its settings say so. They were no messages of the
        queue: nothing but `x-death` says whence they come."""
        settings = queue.settings
        if settings.overflow is not Overflow.REJECT_DEAD_LETTER or not settings.has_dead_letters:
            return
        now_ms = self._wall()
        data = encode(columns)
        seal(data, 0, 0, now_ms)
        stored, letters = StoredBatch.of(data), self._letters(queue, NOTHING_SAID, Reason.MAX_LENGTH, now_ms, 0)
        if letters.add(stored, array("q", range(columns.count)), 0, Window(0)) < columns.count:
            logger.warning("refused messages dropped, they are too many queue=%s", queue.name)
        bundle = letters.bundle(self._routes)
        if letters.exchange is not None:
            moved = to_exchange(bundle, letters.exchange, self._routes, self._publisher)
        else:
            target = await self._queue_for(queue, settings.dead_letter_topic or "")
            moved = to_queue(bundle, target, self._publisher)
        if moved.puts:
            await self._intake.stage(PublishRequest(moved.puts, limits=Limits.NONE, purpose=Purpose.SETTLE))
        queue.dead_lettered[Reason.MAX_LENGTH] += moved.reached

    def _begun(self, group: Group, unit: Unit, reason: Reason, detail: str) -> Letters:
        queue, shift = group.queue, group.timeline.shift
        moved_ms = group.now() + shift
        source = MessageId(queue.name, queue.incarnation, unit.partition, 0)
        facts = DeadLetter(source, group.key, reason, moved_ms, detail)
        retries = len(group.limits.backoff_ms) if reason is Reason.MAX_RETRIES else -1
        words = said(facts, queue.message_id_prefix(unit.partition), retries, shift)
        return self._letters(queue, words, reason, moved_ms, self._frame_bytes - _LETTER_BYTES)

    def _letters(self, queue: PartitionedQueue, words: Said, reason: Reason, moved_ms: int, row_bytes: int) -> Letters:
        settings = queue.settings
        gathered = Gathered(words, row_bytes, self._frame_bytes * 3 // 4, _MOST_ROWS)
        name, key = settings.dead_letter_exchange, settings.dlq_config.routing_key
        if name is None:
            return Letters(gathered, None)
        deaths = Deaths(queue.name.encode(), reason.amqp.encode(), moved_ms // 1000, key is not None)
        is_automatic = reason is not Reason.REJECTED
        return Letters(gathered, Exchange(name, key, queue.namespace, queue.name, is_automatic, deaths))

    async def _gather(self, group: Group, unit: Unit, wanted: array[int], at: int, letters: Letters) -> int:
        """As many of the wanted messages as a frame takes, from the place `at` on: the place of the first that is left.
        What is gone is settled."""
        while at < len(wanted):
            try:
                stored = await unit.stored(wanted[at])
            except OffsetOutOfRange:
                stored = None
            cursor = group.cursor(unit)
            if stored is None:
                cursor.settle_aside(wanted[at : at + 1])
                at += 1
                continue
            before = len(letters.offsets)
            following = letters.add(stored, wanted, at, cursor.window)
            if gone := array("q", set(wanted[at:following]).difference(letters.offsets[before:])):
                cursor.settle_aside(array("q", sorted(gone)))
            at = following
            if at < len(wanted) and wanted[at] < stored.end:
                break  # the frame is full
        return at

    async def _move(self, group: Group, unit: Unit, letters: Letters, reason: Reason) -> None:
        if group.cursor(unit).unsaid_span > _MANY_OFFSETS:
            await self._ledger.flush([unit])
        target: Queue | None = None
        waiting = [letters.bundle(self._routes)]
        while waiting:
            bundle = waiting.pop()
            if letters.exchange is not None:
                moved = to_exchange(bundle, letters.exchange, self._routes, self._publisher)
            else:
                target = await self._target(group)
                moved = to_queue(bundle, target, self._publisher)
            if moved.bytes > self._frame_bytes * 7 // 8 and len(bundle.offsets) > 1:
                waiting += bundle.halves()
                continue
            try:
                await self._stage(group, unit, bundle, moved)
            except (_SettledMeanwhile, NoSuchQueue):
                if left := _leaving(group.cursor(unit), bundle):
                    waiting.append(left)
                continue
            self._account(group, unit, bundle, moved, reason)
            if self._webhooks.wants_letters(group.queue):
                name = "" if target is None else target.name
                self._webhooks.tell_dead_letters(group.queue, name or f"exchange {_name(letters)}", _facts(bundle))
        if timed_out := letters.gathered.timed_out:
            group.queue.dead_lettered.update({Reason.TOTAL_TIMEOUT: timed_out, reason: -timed_out})

    async def _target(self, group: Group) -> Queue:
        topic = group.queue.settings.dead_letter_topic
        if topic is None:
            raise InvalidArgument(f"queue {group.queue.name!r} keeps no dead letters any more")
        return await self._queue_for(group.queue, topic)

    async def _stage(self, group: Group, unit: Unit, bundle: Bundle, moved: Moved) -> None:
        settled = partial(_settled, group.cursor(unit), unit, bundle.offsets)
        with self._ledger.busy():
            await self._intake.stage(
                PublishRequest(moved.puts, late=settled, limits=Limits.NONE, purpose=Purpose.SETTLE)
            )

    def _account(self, group: Group, unit: Unit, bundle: Bundle, moved: Moved, reason: Reason) -> None:
        tally, count = group.cursor(unit).tally, len(bundle.offsets)
        tally.dead_lettered += moved.reached
        tally.dropped += count - moved.reached
        group.queue.dead_lettered[reason] += moved.reached

    async def _drop(self, group: Group, unit: Unit, wanted: array[int], reason: Reason) -> None:
        cursor = group.cursor(unit)
        count = cursor.settle_aside(array("q", [offset for offset in wanted if offset in cursor.leaving]))
        if not count:
            return
        if reason is Reason.EXPIRED:
            cursor.tally.expired += count
        else:
            cursor.tally.dropped += count
        if reason not in _QUIETLY:
            text = "messages given up and dropped queue=%s group=%s messages=%d"
            self._telling.warn("drop", text, unit.queue, group.name, count)
        await self._ledger.flush([unit])


def _name(letters: Letters) -> str:
    return "" if letters.exchange is None else letters.exchange.name


def _facts(bundle: Bundle) -> list[DeadLetter]:
    spans, source = bundle.columns.properties, bundle.columns.source
    if spans is None:
        return []
    places = zip(spans.starts, spans.ends, strict=True)
    found = [from_properties(bytes(source[start:end])) for start, end in places]
    return [facts for facts in found if facts is not None]


def _settled(cursor: Cursor, unit: Unit, offsets: array[int], room: int) -> Late:
    """Of letters that are in the frame."""
    if not cursor.leaving.issuperset(offsets):
        raise _SettledMeanwhile
    statement = Statement(room)
    statement.settle(unit, cursor, offsets)

    def apply() -> None:
        statement.apply()
        cursor.settle_aside(offsets, is_said=True)

    return Late(statement.parts(), apply)


def _leaving(cursor: Cursor, bundle: Bundle) -> Bundle | None:
    """A commit, a purge or a seek may have settled some while the move was prepared."""
    rows = [row for row, offset in enumerate(bundle.offsets) if offset in cursor.leaving]
    return bundle.select(array("i", rows)) if rows else None
