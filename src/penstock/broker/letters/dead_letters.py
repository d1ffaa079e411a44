"""Moving messages that a group has given up on to the queue for dead letters: one frame with their settlement."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from penstock.broker.publish.commit import Intake
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import Limits, PublishRequest, Put
from penstock.broker.queues.group import Group
from penstock.broker.queues.ledger import Ledger, Statement
from penstock.broker.queues.partitioned import PartitionedQueue
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.broker.webhooks.webhooks import Webhooks
from penstock.core.types import Purpose
from penstock.log.batch import Row
from penstock.log.journal.late import Late
from penstock.log.upkeep.faults import Telling
from penstock.queues.cursor import Cursor
from penstock.queues.deadletter import DeadLetter, Reason, columns_for_move, dead_letter, row_bytes
from penstock.queues.names import MessageId

logger = logging.getLogger("penstock.broker.dead_letters")

# What a letter takes in a frame beside its bytes, at most: a batch of its own, and its settlement.
_LETTER_BYTES = 256
# Of what was handed out and is not in the state log: if it is more, it goes there in a frame before.
_MANY_OFFSETS = 64

Letter = tuple[Row, DeadLetter]


class _SettledMeanwhile(Exception):
    """A letter of the frame was settled otherwise while it was prepared."""


class DeadLetters:
    """`queue_for` gives the dead-letter queue of that name, made if need be. Used from the loop."""

    def __init__(
        self,
        intake: Intake,
        ledger: Ledger,
        webhooks: Webhooks,
        publisher: Publisher,
        queue_for: Callable[[PartitionedQueue, str], Awaitable[Queue]],
        max_frame_bytes: int,
    ) -> None:
        self._intake, self._ledger, self._webhooks = intake, ledger, webhooks
        self._publisher, self._queue_for, self._frame_bytes = publisher, queue_for, max_frame_bytes
        self._telling = Telling(logger)

    async def move(self, group: Group, unit: Unit, offsets: array[int], reason: Reason, detail: str) -> None:
        """A move never fails for a limit: of the dead-letter queue, or of a frame, of which it takes as many as it
        needs. Where there is no such queue, the messages are dropped and counted."""
        topic = group.queue.settings.dead_letter_topic
        target = None if topic is None else await self._queue_for(group.queue, topic)
        pending: list[Letter] = []
        size = 0
        for offset in offsets:
            row = await _read(unit, offset)
            if row is None:
                if offset in group.cursor(unit).leaving:
                    group.cursor(unit).settle(offset, offset + 1)
                continue
            letter = self._letter(group, unit, row, reason, detail)
            letter_bytes = row_bytes(letter[0]) + _LETTER_BYTES
            if pending and size + letter_bytes > self._frame_bytes * 3 // 4:
                await self._move(group, unit, target, pending)
                pending, size = [], 0
            pending.append(letter)
            size += letter_bytes
        await self._move(group, unit, target, pending)

    def _letter(self, group: Group, unit: Unit, row: Row, reason: Reason, detail: str) -> Letter:
        """As the dead-letter queue stores it. One that was stored when frames were larger, or nothing was left free in
        them, goes with as much of the facts as there is room for."""
        facts = self._facts(group, unit, row.offset, reason, detail)
        letter = dead_letter(row, facts)
        if row_bytes(letter) + _LETTER_BYTES > self._frame_bytes:
            letter = dead_letter(row, replace(facts, detail=""))
        return (row if row_bytes(letter) + _LETTER_BYTES > self._frame_bytes else letter), facts

    async def _move(self, group: Group, unit: Unit, target: Queue | None, letters: list[Letter]) -> None:
        cursor = group.cursor(unit)
        if target is None:
            await self._drop(group, unit, letters)
            return
        if cursor.unsaid_span > _MANY_OFFSETS:
            await self._ledger.flush([unit])
        while letters := _leaving(cursor, letters):
            put = Put(target, columns_for_move([row for row, _ in letters]), self._publisher)
            settled = partial(_settled, cursor, unit, letters)
            try:
                with self._ledger.busy():
                    await self._intake.stage(
                        PublishRequest((put,), late=settled, limits=Limits.NONE, purpose=Purpose.SETTLE)
                    )
                break
            except _SettledMeanwhile:
                continue
        if not letters:
            return
        cursor.tally.dead_lettered += len(letters)
        group.queue.dead_lettered.update([facts.reason for _, facts in letters])
        self._webhooks.tell_dead_letters(group.queue, target.name, [facts for _, facts in letters])

    async def _drop(self, group: Group, unit: Unit, letters: list[Letter]) -> None:
        cursor = group.cursor(unit)
        letters = _leaving(cursor, letters)
        if not letters:
            return
        for row, _ in letters:
            cursor.settle(row.offset, row.offset + 1)
        cursor.tally.dropped += len(letters)
        text = "messages given up and dropped queue=%s group=%s messages=%d"
        self._telling.warn("drop", text, unit.queue, group.name, len(letters))
        await self._ledger.flush([unit])

    def _facts(self, group: Group, unit: Unit, offset: int, reason: Reason, detail: str) -> DeadLetter:
        entry, shift = group.cursor(unit).window.entry(offset), group.timeline.shift
        if reason is Reason.MAX_RETRIES and entry is not None and entry.failures <= len(group.limits.backoff_ms):
            reason = Reason.TOTAL_TIMEOUT
        return DeadLetter(
            source=MessageId(group.queue.name, group.queue.incarnation, unit.partition, offset),
            group=group.key,
            reason=reason,
            moved_ms=group.now() + shift,
            detail=detail,
            delivery_count=entry.deliveries if entry is not None else 0,
            failures=entry.failures if entry is not None else 0,
            first_failed_ms=entry.first + shift if entry is not None and entry.failures else 0,
        )


def _settled(cursor: Cursor, unit: Unit, letters: list[Letter], room: int) -> Late:
    """Of letters that are in the frame."""
    if len(_leaving(cursor, letters)) < len(letters):
        raise _SettledMeanwhile
    statement = Statement(room)
    statement.settle(unit, cursor, array("q", [row.offset for row, _ in letters]))

    def apply() -> None:
        statement.apply()
        for row, _ in letters:
            cursor.settle(row.offset, row.offset + 1, is_said=True)

    return Late(statement.parts(), apply)


def _leaving(cursor: Cursor, letters: list[Letter]) -> list[Letter]:
    """A commit, a purge or a seek may have settled them while the move was prepared."""
    return [(row, facts) for row, facts in letters if row.offset in cursor.leaving]


async def _read(unit: Unit, offset: int) -> Row | None:
    """None if it is gone."""
    stored = await unit.stored(offset) if offset >= unit.start else None
    if stored is None:
        return None
    row = stored.row_from(offset)
    if row >= len(stored) or stored.offsets[row] != offset:
        return None
    return stored.message(row)
