"""A consumer of a group, and what is said of its messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from typing import Protocol

from penstock.broker.feed.consumer import Consumer as Member
from penstock.broker.feed.delivery import Delivery, take_back
from penstock.broker.feed.feed import still_held
from penstock.broker.feed.held import Held
from penstock.broker.feed.settling import Settled
from penstock.broker.queues.start import Start
from penstock.core.errors import Closed, StaleSettlement
from penstock.embedded.bridge import CLOSED, Caller, WaitingThread
from penstock.embedded.gatherer import Gatherer
from penstock.embedded.runtime import Runtime
from penstock.log.columns import Columns
from penstock.queues.names import group_name
from penstock.queues.settings import Ordering


class Taken(Protocol):
    """A message that was handed out."""

    is_settled: bool

    @property
    def id(self) -> str: ...

    @property
    def delivery(self) -> Delivery: ...

    @property
    def held(self) -> Held:
        """This message alone, to settle it."""


class Subscription:
    """A member of a group. Coroutines run on the broker's loop; what is not a coroutine may be called from any thread,
    and so may what the inbox says is."""

    def __init__(self, runtime: Runtime, member: Member) -> None:
        self.runtime, self._member = runtime, member
        self.group, self.queue = member.group, member.group.queue
        self.inbox = runtime.broker.inbox(member)
        self._acks = Gatherer[Ack](runtime, self._ack_together)
        self._session = runtime.broker.session()
        """who holds what was claimed: a member's own time is that of all it holds"""
        self._claimed: list[Delivery] = []

    @classmethod
    async def open(
        cls, runtime: Runtime, queue: str, group: str, topic_filter: str | None, start: str, prefetch: int | None
    ) -> Subscription:
        """The group is made, to begin at `start`, if there is none."""
        broker = runtime.broker
        key, place = group_name(group, topic_filter), Start.parse(start)
        found = await broker.group(await runtime.ensure(queue), key, place)
        return cls(runtime, broker.join(found, prefetch))

    @property
    def ordering(self) -> Ordering:
        return self.queue.settings.ordering

    # Receiving

    def is_received_here(self, limit: int) -> bool:
        """Inbox.look() for a thread, which looks itself while the loop sleeps."""
        self.runtime.check_caller()

        def look() -> None:
            self.inbox.look(limit)

        self.runtime.visit(look)
        return self.inbox.has_messages

    async def interrupt(self) -> None:
        self.inbox.interrupt()

    async def stop(self) -> None:
        self.inbox.stop()

    async def close(self, counted: bool | None = None) -> None:
        """What was not settled is free for others at once; what nobody has looked at is as if it had not been handed
        out. Calling it again does nothing."""
        self.inbox.close(self._member.held > self.inbox.unseen if counted is None else counted)
        take_back(self._still_claimed())
        self._claimed = []

    # Claiming

    async def claim(self, limit: int, idle_s: float) -> list[Delivery]:
        """What other consumers were handed so long ago and have not settled."""
        broker, member = self.runtime.broker, self._member.number
        found = await broker.claim(self.group, self._session, limit, int(idle_s * 1000), spared=member)
        self._claimed = [*self._still_claimed(), *found]
        return found

    def _still_claimed(self) -> list[Delivery]:
        return list(still_held(self._claimed))

    # Settling

    def ack_one(self, message: Taken) -> Callable[[Caller[None]], None]:
        """For any thread: the question that is answered when the message is done with."""
        return lambda caller: self._acks.add(Ack(message, caller))

    def ack_and_wait(self, message: Taken) -> None:
        """For a thread, which waits until the message is done with."""
        self.runtime.check_caller()

        def stage() -> asyncio.Future[None]:
            return self._begin_ack(message)

        if not self._acks.visit(stage):
            caller: WaitingThread[None] = WaitingThread()
            self._acks.add(Ack(message, caller))
            caller.wait()

    def _begin_ack(self, message: Taken) -> asyncio.Future[None]:
        """StaleSettlement at once; the commit of what changed otherwise."""
        settlement = self.runtime.broker.settling.ack(message.held)
        self._look_at(message, settlement.settled)
        return settlement.waiting[0]

    async def _ack_together(self, acks: list[Ack]) -> None:
        """In one turn, so in one frame. Of several for one message only the first is not stale."""
        settling = self.runtime.broker.settling
        made = [settling.ack(ack.message.held) for ack in acks]
        for number, (ack, settlement) in enumerate(zip(acks, made, strict=True)):
            try:
                ack.tell(stale=(await settlement).stale > 0)
            except Exception as error:
                ack.fail(copy(error))  # others may wait for the same
            except BaseException as error:
                for each in acks[number:]:
                    each.fail(Closed(CLOSED) if isinstance(error, asyncio.CancelledError) else copy(error))
                raise

    def ack_many_and_wait(self, acked: Sequence[Held]) -> Settled:
        """For a thread, which waits."""
        runtime, settled = self.runtime, Settled(0, 0)
        runtime.check_caller()

        def stage() -> asyncio.Future[None]:
            nonlocal settled
            settlement = runtime.broker.settling.several(acked)
            settled = settlement.settled
            return _all_of(settlement.waiting)

        return settled if runtime.visit(stage) else runtime.run(self.ack_many(acked))

    async def ack_many(self, acked: Sequence[Held]) -> Settled:
        return await self.runtime.broker.settling.several(acked)

    async def retry(self, message: Taken, delay: float | None, reason: str) -> None:
        delay_ms = None if delay is None else int(delay * 1000)
        failing = self.runtime.broker.settling.fail(message.held, delay_ms, reason)
        # It took back later messages of the key; those must not be looked at before it comes again.
        self.inbox.drop_taken_back()
        self._look_at(message, await failing)

    async def extend(self, message: Taken) -> None:
        if not self.is_held(message):
            raise StaleSettlement(message.id, "it was taken back")
        settling = self.runtime.broker.settling
        if message.delivery.deadline < 0:
            settling.restart_clock(message.held)
            return
        until = self.runtime.broker.now() + self.queue.settings.performance.lease_ms
        await settling.extend(message.held, until)

    async def reject(self, message: Taken, reason: str) -> None:
        self._look_at(message, await self.runtime.broker.settling.reject(message.held, reason))

    def is_held(self, message: Taken) -> bool:
        """On the loop: whether it is still held as it was handed out."""
        return bool(message.held.current())

    async def publish(self, columns: Columns) -> None:
        runtime = self.runtime
        await runtime.broker.publishing.publish(columns, runtime.publisher, runtime.namespace)

    def _look_at(self, message: Taken, settled: Settled) -> None:
        message.is_settled = True
        if settled.stale:
            raise _stale(message)


class Ack:
    """One call of ack()."""

    __slots__ = ("_caller", "message")
    bytes = 16
    """in the commit, about"""

    def __init__(self, message: Taken, caller: Caller[None]) -> None:
        self.message, self._caller = message, caller

    def fail(self, error: BaseException) -> None:
        self._caller.failed(error)

    def tell(self, stale: bool) -> None:
        self.message.is_settled = True
        if stale:
            self._caller.failed(_stale(self.message))
        else:
            self._caller.done(None)


def _stale(message: Taken) -> StaleSettlement:
    return StaleSettlement(message.id, "it was taken back, settled before, or its time was over")


def _all_of(waiting: Sequence[asyncio.Future[None]]) -> asyncio.Future[None]:
    """Mostly it is one: those of a queue are committed together."""
    if len(waiting) == 1:
        return waiting[0]
    return asyncio.ensure_future(_each(waiting))


async def _each(waiting: Sequence[asyncio.Future[None]]) -> None:
    for future in waiting:
        await future
