"""Moving messages that a group has given up on to the queue for dead letters: one frame with their settlement."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Awaitable, Callable

from penstock.broker.group import Group
from penstock.broker.ledger import Ledger
from penstock.broker.publisher import Publisher
from penstock.broker.publishing import passing
from penstock.broker.queue import Queue
from penstock.broker.unit import Unit
from penstock.broker.webhooks.webhooks import Webhooks
from penstock.log.batch import Row
from penstock.log.shard import Part
from penstock.queues.cursor import Cursor
from penstock.queues.deadletter import DeadLetter, Reason, columns_for_move
from penstock.queues.names import MessageId

logger = logging.getLogger("penstock.broker.dead_letters")

# A message has 16 MiB less some at the most; so many bytes of messages go into a frame of that size.
_FRAME_BYTES = 12 << 20


class DeadLetters:
    """`queue_for` gives the dead-letter queue of that name, made if need be. Used from the loop."""

    def __init__(
        self,
        ledger: Ledger,
        webhooks: Webhooks,
        publisher: Publisher,
        queue_for: Callable[[Queue, str], Awaitable[Queue]],
    ) -> None:
        self._ledger, self._webhooks, self._publisher, self._queue_for = ledger, webhooks, publisher, queue_for

    async def move(self, group: Group, unit: Unit, offsets: array[int], reason: Reason, detail: str) -> None:
        """A move never fails for a limit of the dead-letter queue. Where there is none, the messages are dropped and
        counted."""
        name = group.queue.settings.dead_letter_queue
        target = None if name is None else await self._queue_for(group.queue, name)
        pending: list[tuple[Row, DeadLetter]] = []
        size = 0
        for offset in offsets:
            row = await _read(unit, offset)
            if row is None:
                if offset in group.cursor(unit).leaving:
                    group.cursor(unit).settle(offset, offset + 1)
                continue
            row_bytes = len(row.value) + len(row.properties or b"")
            if size + row_bytes > _FRAME_BYTES:
                await self._move(group, unit, target, pending)
                pending, size = [], 0
            pending.append((row, self._facts(group, unit, offset, reason, detail)))
            size += row_bytes
        await self._move(group, unit, target, pending)

    async def _move(
        self, group: Group, unit: Unit, target: Queue | None, letters: list[tuple[Row, DeadLetter]]
    ) -> None:
        cursor = group.cursor(unit)

        def settle() -> None:
            for row, _ in _leaving(cursor, letters):
                cursor.settle(row.offset, row.offset + 1)

        if target is None:
            letters = _leaving(cursor, letters)
            if not letters:
                return
            settle()
            cursor.tally.dropped += len(letters)
            logger.warning("%d messages given up and dropped queue=%s group=%s", len(letters), unit.queue, group.name)
            await self._ledger.flush([unit])
            return
        async with passing([target]):
            parts = await self._parts(cursor, target, letters)
            letters = _leaving(cursor, letters)
            if not letters:
                return
            await self._ledger.commit(parts, unit, group.number, settle)
        cursor.tally.dead_lettered += len(letters)
        group.queue.dead_lettered.update([facts.reason for _, facts in letters])
        self._webhooks.tell_dead_letters(group.queue, target.name, [facts for _, facts in letters])

    async def _parts(self, cursor: Cursor, target: Queue, letters: list[tuple[Row, DeadLetter]]) -> list[Part]:
        """Of those that are not settled otherwise once every partition is there."""
        while letters := _leaving(cursor, letters):
            placed = target.place(columns_for_move(letters), self._publisher)
            if all(partition in target.units for partition, _ in placed):
                return [(target.units[partition].data, columns) for partition, columns in placed]
            for partition, _ in placed:
                await target.unit(partition)
        return []

    def _facts(self, group: Group, unit: Unit, offset: int, reason: Reason, detail: str) -> DeadLetter:
        entry = group.cursor(unit).window.entry(offset)
        now = group.now()
        if reason is Reason.MAX_RETRIES and entry is not None and entry.failures <= len(group.limits.backoff_ms):
            reason = Reason.TOTAL_TIMEOUT
        return DeadLetter(
            source=MessageId(group.queue.name, group.queue.incarnation, unit.partition, offset),
            group=group.key,
            reason=reason,
            moved_ms=now,
            detail=detail,
            delivery_count=entry.deliveries if entry is not None else 0,
            failures=entry.failures if entry is not None else 0,
            first_failed_ms=entry.first if entry is not None and entry.failures else 0,
        )


def _leaving(cursor: Cursor, letters: list[tuple[Row, DeadLetter]]) -> list[tuple[Row, DeadLetter]]:
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
