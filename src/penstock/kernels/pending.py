"""Looking at what a window holds, and putting it back after a restart. kernels/window has the operations."""

from __future__ import annotations

import enum
from array import array
from typing import NamedTuple, TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.kernels.entries import Entries

Ints: TypeAlias = "array[int] | memoryview[int]"

NEVER_MS = (1 << 63) - 1
"""next_due when nothing has a time"""

_DEAD, _INFLIGHT, _LEASED, _BACKOFF, _READY, _PARKED = range(6)


class EntryState(enum.IntEnum):
    DEAD = 0
    """settled, or not reached yet"""
    INFLIGHT = 1
    """held by a stream, whose clock is kept elsewhere; its time is when it was delivered"""
    LEASED = 2
    """held until its time"""
    BACKOFF = 3
    """waits until its time"""
    READY = 4
    PARKED = 5
    """waits for an earlier one of its key, or for a key that another consumer holds"""


class PendingEntry(NamedTuple):
    offset: int
    key: int
    state: int
    consumer: int
    """-1 where nobody holds it"""
    time: int
    deliveries: int
    failures: int
    returns: int
    first: int
    """when it was delivered first; 0 if that is not known"""


class Pending(Entries):
    @property
    def floor(self) -> int:
        """The first offset that is not settled."""
        return self.offset[self.head] if self.live > 0 else self.next

    @property
    def pending(self) -> int:
        return self.live

    @property
    def held(self) -> int:
        return self.tally[_INFLIGHT] + self.tally[_LEASED]

    @property
    def leased(self) -> int:
        return self.tally[_LEASED]

    @property
    def waiting(self) -> int:
        """In backoff."""
        return self.tally[_BACKOFF]

    @property
    def ready(self) -> int:
        return self.tally[_READY]

    @property
    def parked(self) -> int:
        return self.tally[_PARKED]

    @property
    def first_ready(self) -> int:
        """The lowest offset that is ready; -1 if none is."""
        while self.tally[_READY] > 0:
            i = self.heap.pop()
            if i < 0:
                break
            if self.state[i] == _READY:
                self.heap.push(i)
                return self.offset[i]
        return -1

    def state_of(self, offset: int) -> int:
        i = self.find(offset)
        return self.state[i] if i >= 0 else _DEAD

    def entry(self, offset: int) -> PendingEntry | None:
        """None if it is settled, or not reached yet."""
        i = self.find(offset)
        if i < 0:
            return None
        key = self.key[i] if self.keyed else 0
        counts = self.deliveries[i], self.failures[i], self.returns[i]
        return PendingEntry(offset, key, self.state[i], self.consumer[i], self.time[i], *counts, self.first[i])

    def counts(self, offsets: Ints, deliveries: Ints, failures: Ints, firsts: Ints) -> int:
        """Of each offset, which rise: how often it was handed out, how often it failed, and if it did, when it was
        delivered first; 0 for what is settled, or not reached yet. How many are neither."""
        at, found = self.head, 0
        for k in range(len(offsets)):
            at = self.seek(offsets[k], at)
            deliveries[k] = failures[k] = firsts[k] = 0
            if at < self.count and self.offset[at] == offsets[k] and self.state[at] != _DEAD:
                deliveries[k], failures[k] = self.deliveries[at], self.failures[at]
                firsts[k] = self.first[at] if self.failures[at] > 0 else 0
                found += 1
        return found

    def held_by(self, consumer: int) -> int:
        held = self.holders.get(consumer, 0)
        return held + self.run_change if consumer == self.run_consumer else held

    def oldest_held(self, consumer: int) -> int:
        """The lowest offset in flight at a consumer, leases left out; -1 if there is none."""
        if self.held_by(consumer) > 0:
            for i in range(self.head, self.count):
                if self.state[i] == _INFLIGHT and self.consumer[i] == consumer:
                    return self.offset[i]
        return -1

    def oldest_time(self, consumer: int) -> int:
        """When that was delivered which is in flight at a consumer for longest; -1 if nothing is."""
        oldest = -1
        if self.held_by(consumer) > 0:
            for i in range(self.head, self.count):
                if self.state[i] == _INFLIGHT and self.consumer[i] == consumer:
                    oldest = self.time[i] if oldest < 0 else min(oldest, self.time[i])
        return oldest

    def pending_from(self, offset: int) -> int:
        """How many entries lie at or behind an offset; counts the shorter side where some between are settled."""
        at = self.seek(offset, self.head)
        if self.count - self.head == self.live:
            return self.count - at
        found = 0
        if 2 * at > self.head + self.count:
            for i in range(at, self.count):
                found += self.state[i] != _DEAD
            return found
        for i in range(self.head, at):
            found += self.state[i] != _DEAD
        return self.live - found

    def offsets(self, state: int = -1, limit: int = NEVER_MS) -> array[int]:
        """Of the entries in a state (-1: any), the lowest first."""
        found = array("q")
        for i in range(self.head, self.count):
            if len(found) >= limit:
                break
            if self.state[i] != _DEAD and (state < 0 or self.state[i] == state):
                found.append(self.offset[i])
        return found

    def in_flight_since(self, time: int, spared: int = -1, limit: int = NEVER_MS) -> array[int]:
        """Of the entries in flight that were delivered then or before, but for those of one consumer (-1: none); the
        lowest first."""
        found = array("q")
        if self.tally[_INFLIGHT] == 0:
            return found
        for i in range(self.head, self.count):
            if len(found) >= limit:
                break
            if self.state[i] == _INFLIGHT and self.time[i] <= time and self.consumer[i] != spared:
                found.append(self.offset[i])
        return found

    def ranges(self, first: int, stop: int) -> array[int]:
        """First and end of each run of consecutive offsets in first..stop - 1 that are not settled."""
        found = array("q")
        self.add_ranges(first, stop, found)
        return found

    def add_ranges(self, first: int, stop: int, found: array[int]) -> int:
        """ranges() to the end of `found`."""
        run_first = run_stop = -1
        for i in range(self.seek(first, self.head), self.seek(stop, self.head)):
            if self.state[i] == _DEAD:
                continue
            if self.offset[i] != run_stop:
                if run_stop >= 0:
                    found.extend((run_first, run_stop))
                run_first = self.offset[i]
            run_stop = self.offset[i] + 1
        if run_stop >= 0:
            found.append(run_first)
            found.append(run_stop)
        return 0

    def dump(self) -> tuple[array[int], ...]:
        """Columns of all entries: offset, state, time, deliveries, failures, returns, first."""
        if self.live == 0:
            return tuple(array(code) for code in "qbqHHHq")
        self.compact()
        offset, time, first, _, deliveries, failures, returns, state = self.columns[:8]
        order = offset, state, time, deliveries, failures, returns, first
        return tuple(column[: self.count] for column in order)

    # After a restart: restore…, settle…, set_keys…, then rebuild() once

    def restore_range(self, first: int, stop: int) -> int:
        """Offsets that were handed out once and are free now; those below `next` are left as they are. What lies
        between `next` and the range is settled."""
        for offset in range(max(first, self.next), stop):
            i = self.append(offset, 0, _READY)  # first: it may make the columns
            self.deliveries[i] = 1
        return 0

    def restore(
        self,
        offset: int,
        state: int,
        time: int,
        deliveries: int,
        failures: int,
        returns: int,
        first: int,
        consumer: int = 0,
    ) -> bool:
        """What is known of an entry that was restored, or of a new last one; False if the offset is settled. It is
        ready, in backoff, or leased by the consumer."""
        if state not in (_LEASED, _BACKOFF, _READY):
            raise InvalidArgument("an entry comes back leased, in backoff or ready")
        i = self.find(offset) if offset < self.next else self.append(offset, 0, state)
        if i < 0:
            return False
        self.faulted = True
        self.move(i, state)
        self.consumer[i] = consumer if state == _LEASED else -1
        self.time[i], self.first[i] = 0 if state == _READY else time, first
        self.deliveries[i], self.failures[i], self.returns[i] = deliveries, failures, returns
        return True

    def set_keys(self, offsets: Ints, keys: Ints) -> int:
        """Hashes of keys, which are not kept; rebuild() puts what shares one in order."""
        self.use_keys()
        for k in range(len(offsets)):
            i = self.find(offsets[k])
            if i >= 0:
                self.key[i] = keys[k]
        return 0
