"""What comes back: failures, returns, leases that run out, and what one consumer claims from another."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.kernels.pending import Pending

Ints: TypeAlias = "array[int] | memoryview[int]"

_DEAD, _INFLIGHT, _LEASED, _BACKOFF, _READY, _PARKED = range(6)
_NEVER = (1 << 63) - 1
_MOST_COUNTED = 0xFFFF


class Retries(Pending):
    """What is not settled by its holder. kernels/window says what settlements name and how results are given."""

    def __init__(self, start: int) -> None:
        Pending.__init__(self, start)
        self.stale_last = self.exhausted_last = 0

    def nack(
        self,
        offsets: Ints,
        deliveries: Ints | None,
        consumer: int,
        now: int,
        delay: int,
        backoff_ms: Ints,
        max_age_ms: int,
        out_failed: array[int],
        out_exhausted: array[int],
    ) -> int:
        """What is held has failed, and waits for `delay`, or if that is negative for backoff_ms[failures - 1]; how many
        do. What failed more often than there are backoffs, or came first max_age_ms ago (0: no matter), stays held and
        goes to `out_exhausted` (exhausted_last counts), to be settled by the caller. What is held of a failed one's key
        behind it is taken back and parked, which counts as nothing."""
        self.check_out(offsets, deliveries, out_failed)
        self.check_out(offsets, deliveries, out_exhausted)
        failed = self.exhausted_last = 0
        at, highest = self.head, -1
        for k in range(len(offsets)):
            at = self.seek_held(offsets[k], -1 if deliveries is None else deliveries[k], consumer, at)
            if at < 0:
                at = ~at
                continue
            if offsets[k] <= highest and self.is_among(offsets[k], out_exhausted, self.exhausted_last):
                continue
            highest = max(highest, offsets[k])
            if self.fail(at, now, delay, backoff_ms, max_age_ms):
                out_failed[failed] = offsets[k]
                failed += 1
            else:
                out_exhausted[self.exhausted_last] = offsets[k]
                self.exhausted_last += 1
        self.stale_last = len(offsets) - failed - self.exhausted_last
        return failed

    def fail(self, i: int, now: int, delay: int, backoff_ms: Ints, max_age_ms: int) -> int:
        """0 if it was the last time."""
        self.faulted = True
        if self.failures[i] < _MOST_COUNTED:
            self.failures[i] += 1
        failures = self.failures[i]
        if failures > len(backoff_ms) or (max_age_ms > 0 and 0 < self.first[i] <= now - max_age_ms):
            return 0
        wait = delay if delay >= 0 else backoff_ms[failures - 1]
        self.step_back(i, now + wait if wait > 0 else 0)
        return 1

    def is_among(self, offset: int, found: array[int], count: int) -> bool:
        """Whether a settlement that is named twice was the last one already."""
        k = 0
        while k < count and found[k] != offset:
            k += 1
        return k < count

    def give_back(
        self,
        consumer: int,
        counted: bool,
        max_returns: int,
        now: int,
        out_returned: array[int],
        out_exhausted: array[int],
        leases: bool = False,
    ) -> int:
        """All that the consumer holds is ready for the next one, or parked behind what is; leases only if asked. How
        many. `counted`: it counts as a return, and what returned more than `max_returns` times goes to `out_exhausted`
        instead (exhausted_last counts), to be settled by the caller before anything else happens here."""
        left = self.held_by(consumer)
        if len(out_returned) < left or len(out_exhausted) < left:
            raise InvalidArgument("a buffer for results is too short")
        indexes = array("i")
        highest = _LEASED if leases else _INFLIGHT
        for i in range(self.head, self.count):
            if left == 0:
                break
            if self.state[i] != _DEAD and self.state[i] <= _LEASED and self.consumer[i] == consumer:
                left -= 1
                if self.state[i] <= highest:
                    indexes.append(i)
        return self.return_all(indexes, counted, max_returns, out_returned, out_exhausted)

    def give_back_many(
        self,
        consumers: Ints,
        spared: set[int],
        counted: bool,
        max_returns: int,
        now: int,
        out_returned: array[int],
        out_exhausted: array[int],
    ) -> int:
        """give_back() of many consumers, whose numbers rise, in one pass; leases are left alone, and so is what is
        `spared`."""
        left = 0
        for k in range(len(consumers)):
            if k > 0 and consumers[k] <= consumers[k - 1]:
                raise InvalidArgument("numbers of consumers do not rise")
            left += self.held_by(consumers[k])
        if len(out_returned) < left or len(out_exhausted) < left:
            raise InvalidArgument("a buffer for results is too short")
        indexes = array("i")
        last, is_among = -1, False
        for i in range(self.head, self.count):
            if left == 0:
                break
            if self.state[i] == _DEAD or self.state[i] > _LEASED:
                continue
            if self.consumer[i] != last:
                last = self.consumer[i]
                is_among = self.is_one_of(last, consumers)
            if is_among:
                left -= 1
                if self.state[i] == _INFLIGHT and not (len(spared) and self.offset[i] in spared):
                    indexes.append(i)
        return self.return_all(indexes, counted, max_returns, out_returned, out_exhausted)

    def is_one_of(self, consumer: int, consumers: Ints) -> bool:
        low, high = 0, len(consumers)
        while low < high:
            middle = (low + high) >> 1
            if consumers[middle] < consumer:
                low = middle + 1
            else:
                high = middle
        return low < len(consumers) and consumers[low] == consumer

    def give_back_some(
        self,
        offsets: Ints,
        consumer: int,
        counted: bool,
        max_returns: int,
        now: int,
        out_returned: array[int],
        out_exhausted: array[int],
    ) -> int:
        """The same for single offsets, which rise, leases or not; stale_last counts what the consumer does not hold."""
        self.check_out(offsets, None, out_returned)
        self.check_out(offsets, None, out_exhausted)
        indexes = array("i")
        at = self.head
        for k in range(len(offsets)):
            at = self.seek_held(offsets[k], -1, consumer, at)
            if k > 0 and offsets[k] <= offsets[k - 1]:
                raise InvalidArgument("offsets do not rise")
            if at >= 0:
                indexes.append(at)
                at += 1
            else:
                at = ~at
        self.stale_last = len(offsets) - len(indexes)
        return self.return_all(indexes, counted, max_returns, out_returned, out_exhausted)

    def return_all(
        self,
        indexes: array[int],
        counted: bool,
        max_returns: int,
        out_returned: array[int],
        out_exhausted: array[int],
    ) -> int:
        """From the last to the first, so that each finds those behind it waiting already."""
        returned = exhausted = 0
        self.faulted = self.faulted or counted
        for k in range(len(indexes)):
            i = indexes[k]
            if counted and self.returns[i] < _MOST_COUNTED:
                self.returns[i] += 1
            if counted and self.returns[i] > max_returns:
                out_exhausted[exhausted] = self.offset[i]
                exhausted += 1
                indexes[k] = -1
            else:
                out_returned[returned] = self.offset[i]
                returned += 1
        for k in range(len(indexes) - 1, -1, -1):
            if indexes[k] >= 0:
                self.step_back(indexes[k], 0)
        self.exhausted_last = exhausted
        return returned

    def expire(self, now: int, out_leases: array[int]) -> int:
        """What waited long enough is ready. How many leases ran out: they are still held, their offsets are in
        `out_leases`, as many as it takes."""
        if now < self.next_due:
            return 0
        left = self.tally[_BACKOFF] + self.tally[_LEASED]
        due, found, i = _NEVER, 0, self.head
        while left > 0 and i < self.count:
            if self.state[i] == _BACKOFF or self.state[i] == _LEASED:
                left -= 1
                if self.time[i] > now:
                    due = min(due, self.time[i])
                elif self.state[i] == _BACKOFF:
                    self.make_ready(i)
                else:
                    due = min(due, self.time[i])
                    if found < len(out_leases):
                        out_leases[found] = self.offset[i]
                        found += 1
            i += 1
        self.next_due = due
        return found

    def extend(self, offsets: Ints, deliveries: Ints | None, consumer: int, deadline: int) -> int:
        """Give leases another deadline; how many were current."""
        extended = 0
        at = self.head
        for k in range(len(offsets)):
            at = self.seek_held(offsets[k], -1 if deliveries is None else deliveries[k], consumer, at)
            if at < 0:
                at = ~at
            elif self.state[at] == _LEASED:
                self.time[at] = deadline
                extended += 1
        if extended > 0:
            self.next_due = min(self.next_due, deadline)
        self.stale_last = len(offsets) - extended
        return extended

    def claim(
        self, offsets: Ints, from_consumer: int, to_consumer: int, now: int, deadline: int, out_claimed: array[int]
    ) -> int:
        """Hand what one consumer holds (-1: whoever) to another, which counts as a delivery and starts its time anew;
        how many. Of a key all that is held goes, or nothing."""
        if to_consumer < 0:
            raise InvalidArgument("a consumer is negative")
        self.check_out(offsets, None, out_claimed)
        named: dict[int, int] = {}
        of_key: dict[int, int] = {}
        at = self.head
        for k in range(len(offsets)):
            at = self.seek_held(offsets[k], -1, from_consumer, at)
            if at < 0:
                at = ~at
            elif at not in named:
                named[at] = key = self.key[at] if self.keyed else 0
                of_key[key] = of_key.get(key, 0) + 1
        claimed = 0
        for i, key in named.items():
            slot = self.table.find(key) if key else -1
            if slot < 0 or self.table.held[slot] == of_key[key]:
                self.hand_over(i, slot, to_consumer, now, deadline)
                out_claimed[claimed] = self.offset[i]
                claimed += 1
        self.stale_last = len(offsets) - claimed
        return claimed

    def hand_over(self, i: int, slot: int, consumer: int, now: int, deadline: int) -> int:
        self.let_go(i)
        if slot >= 0:
            self.table.owner[slot] = consumer
        return self.hold(i, consumer, now, deadline)

    def check_out(self, offsets: Ints, deliveries: Ints | None, out: array[int]) -> int:
        if len(out) < len(offsets) or (deliveries is not None and len(deliveries) < len(offsets)):
            raise InvalidArgument("a buffer for results, or the delivery counts, are too short")
        return 0
