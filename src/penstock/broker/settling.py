"""What consumers say of messages, and what follows from it."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from penstock.broker.delivery import Delivery
from penstock.broker.group import NEVER, Group
from penstock.broker.ledger import Ledger
from penstock.broker.unit import Unit
from penstock.kernels.windows import ack_each
from penstock.queues.cursor import Cursor
from penstock.queues.deadletter import Reason

logger = logging.getLogger("penstock.broker.settling")

_MOVE_AGAIN_S = 10.0


class Settled(NamedTuple):
    """`stale` ones named a delivery that is no longer current: nothing changed for them."""

    done: int
    stale: int


class DeadLetters(Protocol):
    async def move(self, group: Group, unit: Unit, offsets: array[int], reason: Reason, detail: str) -> None:
        """Out of the group's window into the dead letters, in one frame."""
        ...


class Settling:
    """Used from the loop. Each call returns when what it changed is committed."""

    def __init__(self, ledger: Ledger, letters: DeadLetters) -> None:
        self._ledger, self._letters = ledger, letters
        self._moves: set[asyncio.Task[None]] = set()

    async def ack(
        self, group: Group, unit: Unit, offsets: array[int], deliveries: array[int] | None, consumer: int
    ) -> Settled:
        """Done with. `deliveries` names for each how often it had been handed out then; None: the latest that the
        consumer got. A consumer of -1 stands for whoever holds them."""
        settled = self.ack_now(group, unit, offsets, deliveries, consumer)
        if settled.done:
            await self._ledger.flush_soon(unit)
        return settled

    def ack_now(
        self, group: Group, unit: Unit, offsets: array[int], deliveries: array[int] | None, consumer: int
    ) -> Settled:
        """The same for those whom nobody answers: it is committed with the next frame, within a turn of the loop."""
        if group.silent:
            group.heard_from(consumer)
        cursor = group.cursor(unit)
        count = cursor.ack(offsets, deliveries, consumer)
        if count:
            self._after(group, unit, cursor, consumer)
            self._ledger.flush_soon(unit)
        return Settled(count, len(offsets) - count)

    def committed(self, unit: Unit) -> asyncio.Future[None]:
        """Done when what was settled there so far is committed."""
        return self._ledger.flush_soon(unit)

    def ack_delivery_now(self, delivery: Delivery) -> None:
        """All messages of it, for one whom nobody answers; those handed out anew are stale."""
        units: dict[Unit, None] = {}
        try:
            self._ack_run(delivery.group, delivery.consumer, [delivery], units)
        finally:
            self._ledger.flush_all_soon(units)

    async def ack_all(self, deliveries: Sequence[Delivery]) -> Settled:
        """All messages of several deliveries, a frame for each durability; those handed out anew are stale."""
        settled, waiting = self.ack_all_now(deliveries)
        for future in waiting:
            await future
        return settled

    def ack_all_now(self, deliveries: Sequence[Delivery]) -> tuple[Settled, Sequence[asyncio.Future[None]]]:
        """The same up to where it waits, and what for."""
        done = asked = 0
        units: dict[Unit, None] = {}
        try:
            for (group, number), several in groupby(deliveries, _holder):
                acked = list(several)
                asked += sum([len(delivery.rows) for delivery in acked])
                done += self._ack_run(group, number, acked, units)
        finally:
            waiting = self._ledger.flush_all_soon(units)
        return Settled(done, asked - done), waiting

    def _ack_run(self, group: Group, number: int, acked: list[Delivery], units: dict[Unit, None]) -> int:
        """Deliveries of one consumer; how many messages were settled, in units that are added to `units`. What a
        settlement has to look at is looked at once for all of them where it can be."""
        if group.silent:
            group.heard_from(number)
        consumer, now, done, group_number = group.consumers.get(number), group.now(), 0, group.number
        holds = {} if consumer is None else consumer.holds
        cursors = [delivery.unit.cursors.get(group_number) or group.cursor(delivery.unit) for delivery in acked]
        for delivery, cursor, held in zip(acked, cursors, _acked_whole(acked, cursors, number), strict=True):
            unit, count = delivery.unit, len(delivery.rows)
            if held < 0:
                count = cursor.ack(delivery.offsets, delivery.counts, number)
                held = cursor.held_by(number)
            if not count:
                continue
            done += count
            units[unit] = None
            window = cursor.window
            if consumer is not None and (hold := holds.get(unit.partition)) is not None:
                hold.clock_ms, hold.held = now, held
                if hold.is_revoked:
                    group.released(consumer, hold)
            if window.next_due < NEVER or window.ready:
                self._look_on(group, unit, cursor)
        if consumer is not None and done:
            consumer.wake()
        if group.switches and done:
            group.look_at_switch(now)
        return done

    async def fail(
        self,
        group: Group,
        unit: Unit,
        offsets: array[int],
        deliveries: array[int] | None,
        consumer: int,
        delay_ms: int | None = None,
        detail: str = "",
    ) -> Settled:
        """Not done: come again after the backoff, or after the delay."""
        group.heard_from(consumer)
        cursor, now = group.cursor(unit), group.now()
        before = cursor.tally.stale
        spent = cursor.fail(offsets, deliveries, consumer, now, delay_ms, group.limits)
        stale = cursor.tally.stale - before
        if stale < len(offsets):
            self._after(group, unit, cursor, consumer)
            group.watch_due(unit, cursor)
            if spent:
                await self._give_up(group, unit, spent, Reason.MAX_RETRIES, detail)
                self._after_any(group, unit, cursor)
            await self._ledger.flush_soon(unit)
        return Settled(len(offsets) - stale, stale)

    async def reject(
        self,
        group: Group,
        unit: Unit,
        offsets: array[int],
        deliveries: array[int] | None,
        consumer: int,
        detail: str = "",
    ) -> Settled:
        """Never to be done: to the dead letters."""
        group.heard_from(consumer)
        cursor = group.cursor(unit)
        held = cursor.held(offsets, deliveries, consumer)
        if held:
            cursor.set_aside(held)
            await self._give_up(group, unit, held, Reason.REJECTED, detail)
            self._after(group, unit, cursor, consumer)
        return Settled(len(held), len(offsets) - len(held))

    async def extend(
        self,
        group: Group,
        unit: Unit,
        offsets: array[int],
        deliveries: array[int] | None,
        consumer: int,
        deadline_ms: int,
    ) -> Settled:
        group.heard_from(consumer)
        cursor = group.cursor(unit)
        count = cursor.extend(offsets, deliveries, consumer, deadline_ms)
        if count:
            group.watch_due(unit, cursor)
            await self._ledger.flush_soon(unit)
        return Settled(count, len(offsets) - count)

    def release(
        self, group: Group, unit: Unit, offsets: array[int], deliveries: array[int] | None, consumer: int
    ) -> Settled:
        """Not looked at: anybody's again at once, and nothing counts against them. Committed with the next frame,
        within a turn of the loop."""
        group.heard_from(consumer)
        cursor = group.cursor(unit)
        held = cursor.held(offsets, deliveries, consumer)
        if held:
            cursor.give_back_some(held, consumer, group.now())
            self._after(group, unit, cursor, consumer)
            self._ledger.flush_soon(unit)
            group.notify(unit.partition)
        return Settled(len(held), len(offsets) - len(held))

    def restart_clock(self, group: Group, unit: Unit, consumer: int) -> None:
        """Whoever holds messages there is still at work: their time begins anew, as it does with every settlement."""
        group.heard_from(consumer)
        member = group.consumers.get(consumer)
        if member is not None and (hold := member.holds.get(unit.partition)) is not None:
            hold.clock_ms = group.now()

    async def commit(self, group: Group, unit: Unit, offset: int, fence: tuple[int, int] | None = None) -> int:
        """All below `offset` is done with, in retry or held by others included. `fence` is a member's number and the
        generation it knows: FencedMember if the partition is another's by now."""
        if fence is not None:
            group.members.check(fence[0], unit.partition, fence[1])
            group.heard_from(fence[0])
        cursor = group.cursor(unit)
        count = cursor.settle_below(min(offset, unit.end))
        if count:
            self._after_all(group, unit, cursor)
            await self._ledger.flush_soon(unit)
        return count

    def after_ack(self, group: Group, unit: Unit, consumer: int) -> None:
        """Messages were settled in a frame of somebody else's."""
        group.heard_from(consumer)
        self._after(group, unit, group.cursor(unit), consumer)

    def after_dropping(self, group: Group, unit: Unit) -> None:
        """Messages were settled over the heads of those who held them."""
        self._after_all(group, unit, group.cursor(unit))
        self._ledger.flush_soon(unit)

    async def after_claim(self, group: Group, unit: Unit) -> None:
        """Messages went to another than had them, who keeps them for a time of their own; that is durable now."""
        cursor = group.cursor(unit)
        self._after_all(group, unit, cursor)
        group.watch_due(unit, cursor)
        await self._ledger.flush_soon(unit)

    def note(self, unit: Unit) -> None:
        """Something changed that nobody waits for: it rides in the next commit, within a turn of the loop."""
        self._ledger.flush_soon(unit)

    def dead_letter(self, group: Group, unit: Unit, offsets: array[int], reason: Reason, detail: str = "") -> None:
        """Move them, while others go on."""
        task = asyncio.get_running_loop().create_task(self._move(group, unit, offsets, reason, detail))
        self._moves.add(task)
        task.add_done_callback(self._moves.discard)

    async def finish(self) -> None:
        """Moves that are under way."""
        while self._moves:
            await asyncio.wait(self._moves)

    async def _move(self, group: Group, unit: Unit, offsets: array[int], reason: Reason, detail: str) -> None:
        try:
            await self._give_up(group, unit, offsets, reason, detail)
            self._after_all(group, unit, group.cursor(unit))
        except Exception:
            logger.exception(
                "messages not moved to the dead letters queue=%s partition=%d group=%s",
                unit.queue,
                unit.partition,
                group.name,
            )

    async def _give_up(self, group: Group, unit: Unit, offsets: array[int], reason: Reason, detail: str) -> None:
        """What cannot be moved now stays set aside, and is tried again."""
        try:
            await self._letters.move(group, unit, offsets, reason, detail)
        except Exception:
            again = group, unit, offsets, reason, detail
            asyncio.get_running_loop().call_later(_MOVE_AGAIN_S, self.dead_letter, *again)
            raise

    def _after(self, group: Group, unit: Unit, cursor: Cursor, number: int) -> None:
        """Clocks, room and what may be handed out now."""
        if number < 0:
            self._after_all(group, unit, cursor)
            return
        consumer = group.consumers.get(number)
        if consumer is not None and (hold := consumer.holds.get(unit.partition)) is not None:
            hold.settled(cursor, number, group.now())
            group.released(consumer, hold)
            consumer.wake()
        self._after_any(group, unit, cursor)

    def _after_all(self, group: Group, unit: Unit, cursor: Cursor) -> None:
        """The same, where any consumer may have lost what it held."""
        for consumer in list(group.consumers.values()):
            if (hold := consumer.holds.get(unit.partition)) is not None and hold.held:
                hold.held = cursor.held_by(consumer.number)
                group.released(consumer, hold)
                consumer.wake()
        self._after_any(group, unit, cursor)

    def _after_any(self, group: Group, unit: Unit, cursor: Cursor) -> None:
        if group.switches:
            group.look_at_switch(group.now())
        self._look_on(group, unit, cursor)

    def _look_on(self, group: Group, unit: Unit, cursor: Cursor) -> None:
        """What waited behind a settled message of its key may have a time of its own to wait for."""
        window = cursor.window
        if window.next_due < NEVER:
            group.watch_due(unit, cursor)
        if window.ready:
            group.notify(unit.partition)


def _holder(delivery: Delivery) -> tuple[Group, int]:
    return delivery.group, delivery.consumer


def _acked_whole(acked: list[Delivery], cursors: list[Cursor], consumer: int) -> list[int]:
    """Settle those that are all of a batch: how many messages the consumer holds there then; -1 where nothing changed,
    because single messages have to be looked at."""
    firsts, stops = [delivery.stored.first for delivery in acked], [delivery.stored.end for delivery in acked]
    for i, (delivery, cursor) in enumerate(zip(acked, cursors, strict=True)):
        if cursor.leaving or delivery.deliveries is not None or len(delivery.rows) != stops[i] - firsts[i]:
            stops[i] = firsts[i]  # of which nothing is settled
    held = ack_each([cursor.window for cursor in cursors], firsts, stops, consumer)
    for cursor, left, first, stop in zip(cursors, held, firsts, stops, strict=True):
        if left >= 0:
            cursor.note_acked(first, stop)
    return held
