"""What consumers say of messages, and what follows from it."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Generator, Sequence
from typing import NamedTuple, Protocol

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.feed.member import GroupMember
from penstock.broker.queues.group import NEVER, Group
from penstock.broker.queues.ledger import Ledger
from penstock.broker.queues.unit import Unit
from penstock.core.errors import PenstockError
from penstock.kernels.windows import ack_runs
from penstock.log.upkeep.faults import Telling
from penstock.queues.cursor import Cursor
from penstock.queues.deadletter import Reason

logger = logging.getLogger("penstock.broker.feed.settling")

_MOVE_AGAIN_S = 10.0


class Settled(NamedTuple):
    """`stale` ones named a delivery that is no longer current: nothing changed for them."""

    done: int
    stale: int


class Settlement:
    """What a settlement changed, at once. Who waits for it is told when that is committed, or raised why not; for who
    does not it is committed with the next frame, within a turn of the loop."""

    __slots__ = ("settled", "waiting")

    def __init__(self, settled: Settled, waiting: Sequence[asyncio.Future[None]] = ()) -> None:
        self.settled, self.waiting = settled, waiting

    def __await__(self) -> Generator[object, None, Settled]:
        for future in self.waiting:
            yield from future
        return self.settled


class DeadLetters(Protocol):
    async def move(self, group: Group, unit: Unit, offsets: array[int], reason: Reason, detail: str) -> None:
        """Out of the group's window into the dead letters, in one frame."""
        ...


class Settling:
    """Used from the loop. What is settled in one turn of it is one frame for each durability."""

    def __init__(self, ledger: Ledger, letters: DeadLetters) -> None:
        self._ledger, self._letters = ledger, letters
        self._moves: set[asyncio.Task[None]] = set()
        self._telling = Telling(logger)

    def ack(self, held: Held, is_awaited: bool = True) -> Settlement:
        """Done with. Who does not wait says so: it is synced with others then."""
        return self.several((held,), is_awaited)

    def several(self, acked: Sequence[Held], is_awaited: bool = True) -> Settlement:
        """ack() of several, in one frame for each durability."""
        whole: list[Delivery] = []
        single: list[Held] = []
        for held in acked:
            delivery = held.delivery
            if held.rows is None and isinstance(delivery, Delivery):
                whole.append(delivery)
            else:
                single.append(held)
        return self._ack(whole, array("i", bytes(4 * len(whole))), array("i", map(len, whole)), single, is_awaited)

    def runs(
        self, deliveries: list[Delivery], firsts: array[int], stops: array[int], is_awaited: bool = True
    ) -> Settlement:
        """ack() of places firsts[i]..stops[i] - 1 of delivery i."""
        return self._ack(deliveries, firsts, stops, [], is_awaited)

    def _ack(
        self,
        deliveries: list[Delivery],
        firsts: array[int],
        stops: array[int],
        single: list[Held],
        is_awaited: bool,
    ) -> Settlement:
        """What is all of a batch, or a run of it, is settled together; what else there is one by one, behind it."""
        asked = sum(stops) - sum(firsts) + sum(map(len, single))
        units: dict[Unit, None] = {}
        woken: dict[GroupMember, None] = {}
        done = 0
        try:
            if deliveries:
                after: list[int] = []
                rest: list[int] = []
                now = deliveries[0].group.now()
                done = ack_runs(deliveries, firsts, stops, now, units, woken, after, rest)
                for i in after:
                    self._look_behind(deliveries[i])
                single = [Held(deliveries[i], range(firsts[i], stops[i])) for i in rest] + single
            for held in single:
                done += self._ack_single(held, units, woken)
        finally:
            waiting = self._ledger.flush_all_soon(units, is_awaited)
            for consumer in woken:
                consumer.wake()
        return Settlement(Settled(done, asked - done), waiting)

    def _look_behind(self, delivery: Delivery) -> None:
        """Some of it were settled, and not only clocks have to know."""
        group, unit, number = delivery.group, delivery.unit, delivery.consumer
        consumer = group.consumers.get(number)
        if consumer is not None and (hold := consumer.holds.get(unit.partition)) is not None:
            group.released(consumer, hold)
        self._after_any(group, unit, group.cursor(unit))

    def _ack_single(self, held: Held, units: dict[Unit, None], woken: dict[GroupMember, None]) -> int:
        group, unit, number = _place(held)
        group.heard_from(number)
        cursor = group.cursor(unit)
        count = cursor.ack(held.offsets, held.counts, number)
        if not count:
            return 0
        units[unit] = None
        consumer = group.consumers.get(number)
        if number < 0:
            self._look_at_holders(group, unit, cursor)
        elif consumer is not None and (hold := consumer.holds.get(unit.partition)) is not None:
            hold.settled(cursor, number, group.now())
            group.released(consumer, hold)
            woken[consumer] = None
        self._after_any(group, unit, cursor)
        return count

    def fail(self, held: Held, delay_ms: int | None = None, detail: str = "") -> Settlement:
        """Not done: come again after the backoff, or after the delay. Who waits does so for those, too, that failed for
        the last time and become dead letters."""
        group, unit, consumer = _place(held)
        group.heard_from(consumer)
        cursor, asked = group.cursor(unit), len(held)
        before = cursor.tally.stale
        spent = cursor.fail(held.offsets, held.counts, consumer, group.now(), delay_ms, group.limits)
        stale = cursor.tally.stale - before
        if stale == asked:
            return Settlement(Settled(0, stale))
        self._after(group, unit, cursor, consumer)
        moved = self.dead_letter(group, unit, spent, Reason.MAX_RETRIES, detail) if spent else None
        return Settlement(Settled(asked - stale, stale), (moved or self._ledger.flush_soon(unit),))

    def reject(self, held: Held, detail: str = "") -> Settlement:
        """Never to be done: to the dead letters."""
        group, unit, consumer = _place(held)
        cursor, current = self._current(held)
        settled = Settled(len(current), len(held) - len(current))
        if not current:
            return Settlement(settled)
        cursor.set_aside(current)
        self._after(group, unit, cursor, consumer)
        return Settlement(settled, (self.dead_letter(group, unit, current, Reason.REJECTED, detail),))

    def extend(self, held: Held, deadline_ms: int) -> Settlement:
        """More time for each, as a lease of its own."""
        group, unit, consumer = _place(held)
        group.heard_from(consumer)
        cursor, asked = group.cursor(unit), len(held)
        count = cursor.extend(held.offsets, held.counts, consumer, deadline_ms)
        if not count:
            return Settlement(Settled(0, asked))
        group.watch_due(unit, cursor)
        return Settlement(Settled(count, asked - count), (self._ledger.flush_soon(unit),))

    def release(self, held: Held, counted: bool | None = None) -> Settlement:
        """Not looked at: anybody's again at once, at their place. Nothing counts against them, or a return does (None:
        as the queue's count_requeues says): then those that came back too often become dead letters, for which waits
        who waits."""
        group, unit, consumer = _place(held)
        if counted is None:
            counted = group.queue.settings.count_requeues
        cursor, current = self._current(held)
        settled = Settled(len(current), len(held) - len(current))
        if not current:
            return Settlement(settled)
        spent = cursor.give_back_some(current, consumer, group.now(), group.limits if counted else None)
        self._after(group, unit, cursor, consumer)
        group.notify(unit.partition)
        moved = self.dead_letter(group, unit, spent, Reason.MAX_DELIVERIES) if spent else None
        return Settlement(settled, (moved or self._ledger.flush_soon(unit),))

    def purge_ready(self, group: Group) -> Settlement:
        """All that nobody holds and that has no time of its own to wait for is done with: it counts as dropped."""
        purged, waiting = 0, []
        for unit in group.queue.units.values():
            count = group.ready_in(unit)
            if count:
                cursor = group.cursor(unit)
                cursor.settle_unheld(unit.end)
                cursor.tally.dropped += count
                purged += count
                waiting.append(self.after_dropping(group, unit))
        return Settlement(Settled(purged, 0), waiting)

    def _current(self, held: Held) -> tuple[Cursor, array[int]]:
        """Those that are not stale."""
        group, unit, consumer = _place(held)
        group.heard_from(consumer)
        cursor = group.cursor(unit)
        return cursor, cursor.held(held.offsets, held.counts, consumer)

    def restart_clock(self, held: Held) -> None:
        """Whoever holds messages there is still at work: their time begins anew, as it does with every settlement."""
        group, unit, consumer = _place(held)
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

    def after_ack(self, held: Held) -> None:
        """Messages were settled in a frame of somebody else's."""
        group, unit, consumer = _place(held)
        group.heard_from(consumer)
        self._after(group, unit, group.cursor(unit), consumer)
        if unit.state is None:
            self._ledger.flush_soon(unit)

    def after_dropping(self, group: Group, unit: Unit) -> asyncio.Future[None]:
        """Messages were settled, or went to another, over the heads of those who held them. Done when that is
        committed."""
        self._after_all(group, unit, group.cursor(unit))
        return self._ledger.flush_soon(unit)

    def note(self, unit: Unit) -> asyncio.Future[None]:
        """Something changed: it rides in the next commit, within a turn of the loop. Done when that is committed."""
        return self._ledger.flush_soon(unit)

    def dead_letter(
        self, group: Group, unit: Unit, offsets: array[int], reason: Reason, detail: str = ""
    ) -> asyncio.Future[None]:
        """Move them, while others go on; done when they are moved. What cannot be moved now stays set aside, and is
        tried again."""
        task = asyncio.get_running_loop().create_task(self._move(group, unit, offsets, reason, detail))
        self._moves.add(task)
        task.add_done_callback(self._moved)
        return task

    async def finish(self) -> None:
        """Moves that are under way."""
        while self._moves:
            await asyncio.wait(self._moves)

    async def _move(self, group: Group, unit: Unit, offsets: array[int], reason: Reason, detail: str) -> None:
        try:
            await self._letters.move(group, unit, offsets, reason, detail)
        except Exception as error:
            if isinstance(error, PenstockError):
                text = "messages not moved to the dead letters queue=%s partition=%d group=%s error=%s"
                self._telling.warn("move", text, unit.queue, unit.partition, group.name, error)
            else:
                logger.exception("messages not moved to the dead letters queue=%s", unit.queue)
            again = group, unit, offsets, reason, detail
            asyncio.get_running_loop().call_later(_MOVE_AGAIN_S, self.dead_letter, *again)
            raise
        self._after_all(group, unit, group.cursor(unit))
        if reason is not Reason.REJECTED or unit.state is None:
            await self._ledger.flush_soon(unit)  # others failed with them, of which the frame of the move says nothing

    def _moved(self, move: asyncio.Task[None]) -> None:
        self._moves.discard(move)
        if not move.cancelled():
            move.exception()  # it was told; who waits for the move is told again

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
        self._look_at_holders(group, unit, cursor)
        self._after_any(group, unit, cursor)

    def _look_at_holders(self, group: Group, unit: Unit, cursor: Cursor) -> None:
        for consumer in list(group.consumers.values()):
            if (hold := consumer.holds.get(unit.partition)) is not None and hold.held:
                hold.held = cursor.held_by(consumer.number)
                group.released(consumer, hold)
                consumer.wake()

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


def _place(held: Held) -> tuple[Group, Unit, int]:
    return held.delivery.group, held.delivery.unit, held.delivery.consumer
