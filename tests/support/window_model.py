"""A window as queues.md has it in words: a dict of messages, every rule by looking at all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

DEAD, INFLIGHT, LEASED, BACKOFF, READY, PARKED = range(6)
HELD = (INFLIGHT, LEASED)


@dataclass(slots=True)
class Message:
    offset: int
    key: int
    state: int = PARKED
    consumer: int = -1
    time: int = 0
    deliveries: int = 0
    failures: int = 0
    returns: int = 0
    first: int = 0

    @property
    def is_held(self) -> bool:
        return self.state in HELD

    def facts(self) -> tuple[int, ...]:
        counts = self.deliveries, self.failures, self.returns
        return (self.offset, self.key, self.state, self.consumer, self.time, *counts, self.first)


@dataclass(slots=True)
class ModelWindow:
    next: int
    messages: dict[int, Message] = field(default_factory=dict)

    @property
    def floor(self) -> int:
        return min(self.messages, default=self.next)

    def of_key(self, key: int) -> list[Message]:
        """In order; a message without a key has no company."""
        return sorted((m for m in self.messages.values() if m.key == key != 0), key=lambda m: m.offset)

    def holder_of(self, key: int) -> int:
        return next((m.consumer for m in self.of_key(key) if m.is_held), -1)

    def in_order(self, states: Iterable[int]) -> list[Message]:
        return [self.messages[offset] for offset in sorted(self.messages) if self.messages[offset].state in states]

    # Rules

    def put_key_in_order(self, key: int) -> None:
        """Nothing is in flight behind one that waits; only the lowest that waits may be handed out; and it may be as
        soon as nobody holds the key."""
        waiting = [m for m in self.of_key(key) if not m.is_held]
        if not waiting:
            return
        lowest = waiting[0]
        for message in self.of_key(key):
            if message.offset > lowest.offset and message.is_held:
                self.free(message, PARKED, 0)
            elif message.offset > lowest.offset:
                message.state = PARKED
        if self.holder_of(key) < 0:
            self.wake(lowest)

    def wake(self, message: Message) -> None:
        if message.state == PARKED:
            message.state = BACKOFF if message.time else READY

    def free(self, message: Message, state: int, time: int) -> None:
        message.state, message.time, message.consumer = state, time, -1

    def hold(self, message: Message, consumer: int, now: int, deadline: int) -> None:
        message.state, message.time = (LEASED, deadline) if deadline >= 0 else (INFLIGHT, now)
        message.consumer, message.deliveries = consumer, message.deliveries + 1
        message.first = message.first or now

    def current(self, offset: int, deliveries: int, consumer: int) -> Message | None:
        found = self.messages.get(offset)
        if found is None or not found.is_held:
            return None
        if deliveries not in (-1, found.deliveries) or consumer not in (-1, found.consumer):
            return None
        return found

    # Operations

    def deliver(
        self, rows: list[tuple[int, int, bool]], consumer: int, room: int, now: int, deadline: int, limit: int
    ) -> list[int]:
        """rows: offset, key, whether to skip it."""
        given: list[int] = []
        for row, (offset, key, skip) in enumerate(rows):
            if offset < self.next:
                continue
            if len(given) == room or len(self.messages) >= limit:
                break
            self.next = offset + 1
            if skip:
                continue
            waits = any(not m.is_held for m in self.of_key(key))
            is_elsewhere = self.holder_of(key) not in (-1, consumer)
            self.messages[offset] = message = Message(offset, key)
            if not waits and not is_elsewhere:
                self.hold(message, consumer, now, deadline)
                given.append(row)
        return given

    def take(self, consumer: int, room: int, now: int, deadline: int, below: int) -> list[tuple[int, int]]:
        given: list[tuple[int, int]] = []
        while len(given) < room:
            ready = [m for m in self.in_order([READY]) if m.offset < below]
            if not ready:
                break
            message = ready[0]
            if self.holder_of(message.key) not in (-1, consumer):
                message.state = PARKED
                continue
            self.hold(message, consumer, now, deadline)
            given.append((message.offset, message.deliveries))
            behind = [m for m in self.of_key(message.key) if not m.is_held]
            if behind:
                self.wake(behind[0])
        return given

    def settle(self, offset: int) -> bool:
        gone = self.messages.pop(offset, None)
        if gone is not None:
            self.put_key_in_order(gone.key)
        return gone is not None

    def ack(self, named: list[tuple[int, int]], consumer: int) -> list[int]:
        return [
            offset for offset, deliveries in named if self.current(offset, deliveries, consumer) and self.settle(offset)
        ]

    def settle_range(self, first: int, stop: int) -> int:
        gone = sum(self.settle(offset) for offset in sorted(self.messages) if first <= offset < stop)
        if stop > max(self.next, first):
            for offset in range(self.next, first):
                self.messages[offset] = Message(offset, 0, READY)
            self.next = stop
        return gone

    def settle_below(self, stop: int) -> int:
        gone = sum(self.settle(offset) for offset in sorted(self.messages) if offset < stop)
        self.next = max(self.next, stop)
        return gone

    def nack(
        self, named: list[tuple[int, int]], consumer: int, now: int, delay: int, backoffs: list[int], max_age: int
    ) -> tuple[list[int], list[int]]:
        failed: list[int] = []
        exhausted: list[int] = []
        for offset, deliveries in named:
            message = self.current(offset, deliveries, consumer)
            if message is None or offset in exhausted:
                continue
            message.failures += 1
            if message.failures > len(backoffs) or (max_age and message.first and now - message.first >= max_age):
                exhausted.append(offset)
                continue
            wait = delay if delay >= 0 else backoffs[message.failures - 1]
            self.free(message, BACKOFF if wait else READY, now + wait if wait else 0)
            self.put_key_in_order(message.key)
            failed.append(offset)
        return failed, exhausted

    def give_back(
        self, named: list[int], consumer: int, counted: bool, max_returns: int
    ) -> tuple[list[int], list[int]]:
        returned: list[int] = []
        exhausted: list[int] = []
        for offset in named:
            message = self.current(offset, -1, consumer)
            if message is None:
                continue
            message.returns += counted
            (exhausted if counted and message.returns > max_returns else returned).append(offset)
        for offset in returned:
            self.free(self.messages[offset], PARKED, 0)
        for offset in returned:
            message = self.messages[offset]
            lowest = min(
                (m for m in self.of_key(message.key) if not m.is_held), key=lambda m: m.offset, default=message
            )
            self.wake(lowest)
            self.put_key_in_order(message.key)
        return returned, exhausted

    def extend(self, named: list[tuple[int, int]], consumer: int, deadline: int) -> int:
        extended = 0
        for offset, deliveries in named:
            message = self.current(offset, deliveries, consumer)
            if message is not None and message.state == LEASED:
                message.time = deadline
                extended += 1
        return extended

    def claim(self, named: list[int], giver: int, taker: int, now: int, deadline: int) -> list[int]:
        found = [m for offset in sorted(set(named)) if (m := self.current(offset, -1, giver)) is not None]
        offsets = {m.offset for m in found}
        whole = [m for m in found if all(o.offset in offsets for o in self.of_key(m.key) if o.is_held)]
        for message in whole:
            self.hold(message, taker, now, deadline)
        return [m.offset for m in whole]

    def expire(self, now: int) -> list[int]:
        for message in self.in_order([BACKOFF]):
            if message.time <= now:
                self.free(message, READY, 0)
        return [m.offset for m in self.in_order([LEASED]) if m.time <= now]
