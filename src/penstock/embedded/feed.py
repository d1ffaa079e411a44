"""What a consumer was handed and nobody has looked at yet, and what is said of its messages."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy

from penstock.broker.feed.consumer import Consumer as Member
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.feed.settling import Settled
from penstock.broker.start import Start
from penstock.core.errors import Closed, StaleSettlement
from penstock.embedded.bridge import CLOSED, Caller, WaitingThread
from penstock.embedded.gathering import Gatherer
from penstock.embedded.message import DeliveredMessage, held_of
from penstock.embedded.runtime import Runtime
from penstock.log.columns import Columns
from penstock.queues.names import group_name
from penstock.queues.settings import Ordering


class Feed:
    """Coroutines run on the broker's loop. take() and what is not a coroutine may be called from any thread."""

    def __init__(self, runtime: Runtime, member: Member) -> None:
        self.runtime, self._member = runtime, member
        self.group, self.queue = member.group, member.group.queue
        self.is_stopped = False
        self._deliveries: deque[Delivery] = deque()
        self._passed: tuple[Delivery | None, int] = (None, 0)
        """how many messages of a delivery were taken. Beside it, so that a delivery goes in one step: the handler of a
        signal may raise between two"""
        self._lock = threading.Lock()
        self._acks = Gatherer[Ack](runtime, self._ack_together)
        self._sleeper: asyncio.Task[object] | None = None
        self._session = runtime.broker.session()
        """who holds what was claimed: a member's own time is that of all it holds"""
        self._claimed: list[Delivery] = []

    @classmethod
    async def open(
        cls, runtime: Runtime, queue: str, group: str, topic_filter: str | None, start: str, prefetch: int | None
    ) -> Feed:
        """The group is made, to begin at `start`, if there is none."""
        broker = runtime.broker
        key, place = group_name(group, topic_filter), Start.parse(start)
        found = await broker.group(await runtime.ensure(queue), key, place)
        return cls(runtime, broker.join(found, prefetch))

    @property
    def ordering(self) -> Ordering:
        return self.queue.settings.ordering

    # Taking

    @property
    def has_messages(self) -> bool:
        """Whether there is one that nobody has looked at."""
        return bool(self._deliveries) and not self.is_stopped

    def take_one(self) -> tuple[Delivery, int] | None:
        """The next message that is here already."""
        with self._lock:
            if not self._deliveries or self.is_stopped:
                return None
            delivery, place = self._deliveries[0], self._place
            self._pass(delivery, place + 1)
            return delivery, place

    @property
    def _place(self) -> int:
        """The first message of the first delivery that nobody has looked at."""
        delivery, place = self._passed
        return place if self._deliveries and self._deliveries[0] is delivery else 0

    def take_many(self, limit: int) -> list[Delivery]:
        """Up to so many messages that are here already."""
        found: list[Delivery] = []
        with self._lock:
            while self._deliveries and limit > 0 and not self.is_stopped:
                delivery, place = self._deliveries[0], self._place
                stop = min(len(delivery), place + limit)
                found.append(delivery.part(place, stop))
                limit -= stop - place
                self._pass(delivery, stop)
        return found

    def _pass(self, first: Delivery, place: int) -> None:
        if place < len(first.rows):
            self._passed = first, place
        else:
            self._deliveries.popleft()

    def is_received_here(self, limit: int) -> bool:
        """receive_now() for a thread, which looks itself for what is at hand while the loop sleeps; False says nothing
        of what there is."""
        self.runtime.check_caller()

        def look() -> None:
            if not self.is_stopped:
                found = self._member.receive_now(limit)
                with self._lock:
                    self._deliveries.extend(found)

        self.runtime.visit(look)
        return self.has_messages

    async def receive_now(self, limit: int) -> bool:
        """Have up to so many messages here, if there are any."""
        if self.is_stopped:
            return False
        found = await self._member.receive(limit)
        with self._lock:
            self._deliveries.extend(found)
        return bool(self._deliveries)

    async def receive(self, limit: int, wait_s: float | None) -> bool:
        """Have up to so many messages here, as soon as there are any; False if none came in time, or when interrupted.
        A call ends an earlier one, whose caller has given up; what that one brings is here all the same."""
        await self.interrupt()
        until = None if wait_s is None else asyncio.get_running_loop().time() + wait_s
        while not self.is_stopped:
            found = await self._member.receive(limit)
            with self._lock:
                self._deliveries.extend(found)
            if self._deliveries:
                return True
            if not await self._is_woken(until):
                return False
        return False

    async def _is_woken(self, until: float | None) -> bool:
        """Only here it can be interrupted: between, messages may be on their way from a file."""
        self._sleeper = asyncio.current_task()
        try:
            async with asyncio.timeout_at(until):
                await self._member.wait()
        except (TimeoutError, asyncio.CancelledError):
            return False
        finally:
            self._sleeper = None
        return True

    async def interrupt(self) -> None:
        """Who waits for messages is told that there are none."""
        if self._sleeper is not None:
            self._sleeper.cancel()

    async def stop(self) -> None:
        """Nothing more is received."""
        self.is_stopped = True
        await self.interrupt()

    async def close(self, counted: bool | None = None) -> None:
        """What was not settled is free for others at once; what nobody has looked at is as if it had not been handed
        out. Calling it again does nothing."""
        await self.stop()
        with self._lock:
            unseen = sum([len(delivery) for delivery in self._deliveries]) - self._place
            self._deliveries.clear()
        self.group.leave(self._member, self._member.held > unseen if counted is None else counted)
        self.group.take_back(self._still_claimed())
        self._claimed = []

    # Claiming

    async def claim(self, limit: int, idle_s: float) -> list[Delivery]:
        """What other consumers were handed so long ago and have not settled."""
        broker, member = self.runtime.broker, self._member.number
        found = await broker.claim(self.group, self._session, limit, int(idle_s * 1000), spared=member)
        self._claimed = [*self._still_claimed(), *found]
        return found

    def _still_claimed(self) -> list[Delivery]:
        return [held for delivery in self._claimed if len(held := self._still_held(delivery))]

    # Settling

    def ack_one(self, message: DeliveredMessage) -> Callable[[Caller[None]], None]:
        """For any thread: the question that is answered when the message is done with."""
        return lambda caller: self._acks.add(Ack(message, caller))

    def ack_and_wait(self, message: DeliveredMessage) -> None:
        """For a thread, which waits until the message is done with."""
        self.runtime.check_caller()

        def stage() -> asyncio.Future[None]:
            return self._begin_ack(message)

        if not self._acks.visit(stage):
            caller: WaitingThread[None] = WaitingThread()
            self._acks.add(Ack(message, caller))
            caller.wait()

    def _begin_ack(self, message: DeliveredMessage) -> asyncio.Future[None]:
        """StaleSettlement at once; the commit of what changed otherwise."""
        settlement = self.runtime.broker.settling.ack(message.held)
        self._look_at(message, settlement.settled)
        return settlement.waiting[0]

    async def _ack_together(self, acks: list[Ack]) -> None:
        if len(acks) == 1:
            await self._ack_alone(acks[0])
            return
        groups: dict[int, list[Ack]] = {}
        for ack in acks:
            groups.setdefault(ack.message.partition, []).append(ack)
        await asyncio.gather(*[self._ack_in_partition(group) for group in groups.values()])

    async def _ack_alone(self, ack: Ack) -> None:
        """As _ack_in_partition(), without the lists."""
        try:
            settled = await self.runtime.broker.settling.ack(ack.message.held)
        except BaseException as error:
            _fail([ack], error)
            return
        ack.tell(stale=settled.stale > 0)

    async def _ack_in_partition(self, acks: list[Ack]) -> None:
        """Only the first of several for one message is not stale."""
        first: dict[int, Ack] = {}
        for ack in acks:
            if self.is_held(ack.message):
                first.setdefault(ack.message.offset, ack)
        held = list(first.values())
        try:
            settled = await self.ack_many(held_of([ack.message for ack in held]))
        except BaseException as error:
            _fail(acks, error)
            return
        for ack in acks:
            ack.tell(stale=settled.stale > 0 or ack not in held)

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

    async def retry(self, message: DeliveredMessage, delay: float | None, reason: str) -> None:
        delay_ms = None if delay is None else int(delay * 1000)
        failing = self.runtime.broker.settling.fail(message.held, delay_ms, reason)
        # It took back later messages of the key; those must not be looked at before it comes again.
        self._drop_taken_back()
        self._look_at(message, await failing)

    async def extend(self, message: DeliveredMessage) -> None:
        if not self.is_held(message):
            raise StaleSettlement(message.id, "it was taken back")
        settling = self.runtime.broker.settling
        if message.delivery.deadline < 0:
            settling.restart_clock(message.held)
            return
        until = self.runtime.broker.now() + self.queue.settings.performance.delivery_timeout_ms
        await settling.extend(message.held, until)

    async def reject(self, message: DeliveredMessage, reason: str) -> None:
        self._look_at(message, await self.runtime.broker.settling.reject(message.held, reason))

    def is_held(self, message: DeliveredMessage) -> bool:
        """On the loop: whether it is still held as it was handed out."""
        return bool(message.held.current())

    async def publish(self, columns: Columns) -> None:
        runtime = self.runtime
        await runtime.broker.publishing.publish(columns, runtime.publisher, runtime.namespace)

    def _look_at(self, message: DeliveredMessage, settled: Settled) -> None:
        message.is_settled = True
        if settled.stale:
            raise _stale(message)

    def _drop_taken_back(self) -> None:
        with self._lock:
            kept = [
                delivery.part(self._place if number == 0 else 0, len(delivery))
                for number, delivery in enumerate(self._deliveries)
            ]
            self._deliveries = deque(held for delivery in kept if len(held := self._still_held(delivery)))

    def _still_held(self, delivery: Delivery) -> Delivery:
        return delivery.picked(Held(delivery).current())


class Ack:
    """One call of ack()."""

    __slots__ = ("_caller", "message")
    bytes = 16
    """in the commit, about"""

    def __init__(self, message: DeliveredMessage, caller: Caller[None]) -> None:
        self.message, self._caller = message, caller

    def fail(self, error: BaseException) -> None:
        self._caller.failed(error)

    def tell(self, stale: bool) -> None:
        self.message.is_settled = True
        if stale:
            self._caller.failed(_stale(self.message))
        else:
            self._caller.done(None)


def _fail(acks: list[Ack], error: BaseException) -> None:
    """Each gets an error of its own; what ends the loop ends it."""
    for ack in acks:
        ack.fail(Closed(CLOSED) if isinstance(error, asyncio.CancelledError) else copy(error))
    if not isinstance(error, Exception):
        raise error


def _stale(message: DeliveredMessage) -> StaleSettlement:
    return StaleSettlement(message.id, "it was taken back, settled before, or its time was over")


def _all_of(waiting: Sequence[asyncio.Future[None]]) -> asyncio.Future[None]:
    """Mostly it is one: those of a queue are committed together."""
    if len(waiting) == 1:
        return waiting[0]
    return asyncio.ensure_future(_each(waiting))


async def _each(waiting: Sequence[asyncio.Future[None]]) -> None:
    for future in waiting:
        await future
