"""The entries of a window as columns, and the moves that keep their order by key. kernels/window has the operations.

Offsets, times and counts are int64 >= 0, consumers 0 to 2**31 - 1, indexes below 2**31. Columns beyond `count` hold
anything, but failures and returns are 0 there.

For each key other than 0, always: all that is held is held by one consumer; nothing held has an earlier entry that
waits; of those that wait only the lowest may be in backoff or ready, the others are parked; the lowest is parked only
while the key is held. So a key's chain of entries is some held, then some that wait."""

from __future__ import annotations

from array import array

from penstock.kernels.heap import IndexHeap
from penstock.kernels.keytable import KeyTable

_DEAD, _INFLIGHT, _LEASED, _BACKOFF, _READY, _PARKED = range(6)
_NEVER = (1 << 63) - 1
_MOST_COUNTED = 0xFFFF

# What an empty window keeps while it is in use: 36 KiB, a few bulks of deliveries.
_KEPT_CAPACITY = 1024

_CODES = "qqqiHHHb"
# Shared by all windows: each look into an array's memory is an object, and most windows are empty.
_NO_WORDS = array("q")
_NO_HASHES = array("Q")
_NO_INTS = array("i")
_NO_SHORTS = array("H")
_NO_BYTES = array("b")


class Entries:
    """`count` slots are in use, `live` of them by entries that are not dead, none of them before `head`. What a move
    leaves dead stays where it is until tidy(), so indexes are good until then."""

    def __init__(self, start: int) -> None:
        self.next = start
        self.next_due = _NEVER
        self.slack = 64
        self.head = self.count = self.live = self.capacity = 0
        self.keyed = self.faulted = False
        self.tally = array("q", bytes(8 * 6))
        self.table, self.heap = KeyTable(), IndexHeap()
        self.holders: dict[int, int] = {}
        self.run_consumer, self.run_change = -1, 0
        self.columns: list[array[int]] = []
        """made for the first entry"""
        self.let_go_of_columns()

    # Memory

    def hold_columns(self) -> int:
        columns = self.columns
        if not columns:
            return self.let_go_of_columns()
        self.offset, self.time, self.first, self.consumer = columns[0], columns[1], columns[2], columns[3]
        self.deliveries, self.failures, self.returns = columns[4], columns[5], columns[6]
        self.state = columns[7]
        if self.keyed:
            self.key, self.link = columns[8], columns[9]
        else:
            self.key = _NO_HASHES
            self.link = _NO_INTS
        return 0

    def let_go_of_columns(self) -> int:
        """An array cannot be resized while somebody looks into its memory."""
        self.offset = _NO_WORDS
        self.time = _NO_WORDS
        self.first = _NO_WORDS
        self.consumer = _NO_INTS
        self.link = _NO_INTS
        self.deliveries = _NO_SHORTS
        self.failures = _NO_SHORTS
        self.returns = _NO_SHORTS
        self.state = _NO_BYTES
        self.key = _NO_HASHES
        return 0

    def resize(self, capacity: int) -> int:
        """Where memory is lacking, MemoryError and nothing is lost."""
        self.let_go_of_columns()
        if not self.columns:
            self.columns = [array(code) for code in _CODES]
        try:
            for column in self.columns:
                if capacity > len(column):
                    column.frombytes(bytes(column.itemsize * (capacity - len(column))))
                else:
                    del column[capacity:]
            self.capacity = capacity
        finally:
            self.hold_columns()
        return 0

    def make_room(self, more: int) -> int:
        """Arrays overallocate by a sixteenth themselves: a million entries stay below 48 MiB."""
        needed = self.count + more
        if needed > self.capacity:
            self.resize(needed + 16 + (needed >> 1 if needed < 1 << 16 else needed >> 4))
        return 0

    def use_keys(self) -> int:
        """From the first key on; a window without keys does without two columns."""
        if not self.keyed:
            if not self.columns:
                self.columns = [array(code) for code in _CODES]
            self.columns += [array("Q", bytes(8 * self.capacity)), array("i", bytes(4 * self.capacity))]
            self.keyed = True
            self.hold_columns()
        return 0

    def tidy(self) -> int:
        """To be called behind every operation that settled something."""
        if self.live == 0:
            return self.clear() if self.count else 0
        while self.state[self.head] == _DEAD:
            self.head += 1
        if self.count - self.live > self.live + self.slack:
            self.compact()
        return 0

    def clear(self) -> int:
        self.clear_faults(0)
        self.head = self.count = 0
        self.next_due = _NEVER
        self.heap.clear()
        self.table.clear()
        if self.capacity > _KEPT_CAPACITY:
            if self.keyed:
                self.let_go_of_columns()
                self.keyed = False
                del self.columns[8:]
            self.resize(_KEPT_CAPACITY)
        return 0

    def give_memory_back(self) -> int:
        """For a window that is empty and not in use: there may be one for each of 100,000 partitions."""
        if self.live == 0 and self.capacity > 0:
            self.clear()
            self.resize(0)
        return 0

    def clear_faults(self, start: int) -> int:
        if self.faulted:
            for i in range(start, self.count):
                self.failures[i] = self.returns[i] = 0
            self.faulted = start > 0
        return 0

    def compact(self) -> int:
        to = 0
        for i in range(self.head, self.count):
            if self.state[i] != _DEAD:
                if to != i:
                    self.copy_entry(to, i)
                to += 1
        self.clear_faults(to)
        self.head, self.count = 0, to
        if self.capacity > 4 * to + _KEPT_CAPACITY:
            self.resize(to + (to >> 2) + 16)
        return self.rebuild()

    def copy_entry(self, to: int, i: int) -> int:
        self.offset[to], self.time[to], self.first[to] = self.offset[i], self.time[i], self.first[i]
        self.consumer[to], self.deliveries[to], self.state[to] = self.consumer[i], self.deliveries[i], self.state[i]
        if self.faulted:
            self.failures[to], self.returns[to] = self.failures[i], self.returns[i]
        if self.keyed:
            self.key[to] = self.key[i]
        return 0

    # Finding

    def seek(self, offset: int, hint: int) -> int:
        """The first index whose offset is not below this one; quick when it is little behind the hint."""
        low, high = self.head, self.count
        if self.head <= hint < self.count and self.offset[hint] <= offset:
            low, step = hint, 1
            while low + step < self.count and self.offset[low + step] <= offset:
                low += step
                step *= 2
            high = min(low + step, self.count)
        while low < high:
            middle = (low + high) >> 1
            if self.offset[middle] < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, offset: int) -> int:
        """The index of a live entry; -1 if the offset has none."""
        i = self.seek(offset, self.head)
        return i if i < self.count and self.offset[i] == offset and self.state[i] != _DEAD else -1

    def seek_held(self, offset: int, deliveries: int, consumer: int, hint: int) -> int:
        """The index of a held entry that this settlement names; else ~ of where it would be."""
        if hint >= self.count or self.offset[hint] != offset:
            hint = self.seek(offset, hint)
            if hint >= self.count or self.offset[hint] != offset:
                return ~hint
        if self.state[hint] == _DEAD or self.state[hint] > _LEASED:
            return ~hint
        if (deliveries >= 0 and self.deliveries[hint] != deliveries) or (
            consumer >= 0 and self.consumer[hint] != consumer
        ):
            return ~hint
        return hint

    # Moves of one entry

    def append(self, offset: int, key: int, state: int) -> int:
        """A new last entry, never delivered, that waits; its index. It has not joined its key."""
        self.make_room(1)
        i = self.count
        self.offset[i], self.state[i], self.consumer[i] = offset, state, -1
        self.time[i] = self.first[i] = self.deliveries[i] = 0
        if self.keyed:
            self.key[i], self.link[i] = key, 0
        self.count += 1
        self.live += 1
        self.next = offset + 1
        self.tally[state] += 1
        return i

    def join_key(self, i: int, slot: int) -> int:
        """The last entry goes to the end of its key's chain."""
        table = self.table
        if table.held[slot] + table.waiting[slot] == 0:
            table.first[slot] = i
        else:
            self.link[table.last[slot]] = i
        table.last[slot] = i
        return 0

    def move(self, i: int, state: int) -> int:
        self.tally[self.state[i]] -= 1
        self.tally[state] += 1
        self.state[i] = state
        return 0

    def count_held(self, consumer: int, change: int) -> int:
        """Changes come in runs of one consumer, so the table of all is seldom asked."""
        if consumer != self.run_consumer:
            self.end_run()
            self.run_consumer = consumer
        self.run_change += change
        return 0

    def end_run(self) -> int:
        if self.run_change != 0:
            held = self.holders.get(self.run_consumer, 0) + self.run_change
            if held > 0:
                self.holders[self.run_consumer] = held
            else:
                self.holders.pop(self.run_consumer, None)
            self.run_change = 0
        return 0

    def hold(self, i: int, consumer: int, now: int, deadline: int) -> int:
        """Hand entry i to a consumer once more; what its key counts is not touched."""
        self.move(i, _LEASED if deadline >= 0 else _INFLIGHT)
        self.consumer[i], self.time[i] = consumer, deadline if deadline >= 0 else now
        if 0 <= deadline < self.next_due:
            self.next_due = deadline
        if self.first[i] == 0:
            self.first[i] = now
        if self.deliveries[i] < _MOST_COUNTED:
            self.deliveries[i] += 1
        return self.count_held(consumer, 1)

    def take_ready(self, i: int, consumer: int, now: int, deadline: int) -> int:
        """1 if the consumer holds it now, 0 if its key is held by another one and it was parked."""
        slot = self.table.find(self.key[i]) if self.keyed and self.key[i] != 0 else -1
        if slot >= 0 and self.table.held[slot] > 0 and self.table.owner[slot] != consumer:
            self.move(i, _PARKED)
            return 0
        self.hold(i, consumer, now, deadline)
        if slot >= 0:
            self.table.held[slot] += 1
            self.table.waiting[slot] -= 1
            self.table.owner[slot] = consumer
            follower = self.live_after(i)
            if follower > 0:
                self.wake(follower)
        return 1

    def live_after(self, i: int) -> int:
        """The next live entry of the same key; 0 if there is none. The dead between are cut out of the chain."""
        follower = self.link[i]
        while follower > 0 and self.state[follower] == _DEAD:
            follower = self.link[follower]
        self.link[i] = follower
        if follower == 0:
            self.table.last[self.table.find(self.key[i])] = i
        return follower

    def wake(self, i: int) -> int:
        """The lowest that waits of its key goes on waiting on its own account."""
        if self.state[i] != _PARKED:
            return 0
        if self.time[i] > 0:
            self.move(i, _BACKOFF)
            self.next_due = min(self.next_due, self.time[i])
            return 0
        return self.make_ready(i)

    def make_ready(self, i: int) -> int:
        self.move(i, _READY)
        self.time[i] = 0
        if self.heap.size > 2 * self.tally[_READY] + 64:
            self.sift_heap()
        return self.heap.push(i)

    def sift_heap(self) -> int:
        """Leave out what is not ready any more, and what is in it twice."""
        heap = self.heap
        kept = sorted({heap.items[k] for k in range(heap.size) if self.state[heap.items[k]] == _READY})
        heap.size = len(kept)
        for k in range(len(kept)):
            heap.items[k] = kept[k]
        return 0

    def let_go(self, i: int) -> int:
        self.count_held(self.consumer[i], -1)
        self.consumer[i] = -1
        return 0

    def step_back(self, i: int, until: int) -> int:
        """A held entry waits again, until a time (0: it is ready). What is held of its key behind it is taken back."""
        self.let_go(i)
        if self.keyed and self.key[i] != 0:
            slot = self.table.find(self.key[i])
            self.table.held[slot] -= 1
            self.table.waiting[slot] += 1
            self.take_back_behind(i, slot)
        if until == 0:
            return self.make_ready(i)
        self.move(i, _BACKOFF)
        self.time[i] = until
        self.next_due = min(self.next_due, until)
        return 0

    def take_back_behind(self, i: int, slot: int) -> int:
        """Up to the first that waits already: behind that one all are parked. A backoff cut short goes on later."""
        behind = self.live_after(i)
        while behind > 0 and self.state[behind] <= _LEASED:
            self.let_go(behind)
            self.move(behind, _PARKED)
            self.time[behind] = 0
            self.table.held[slot] -= 1
            self.table.waiting[slot] += 1
            behind = self.live_after(behind)
        if behind > 0:
            self.move(behind, _PARKED)
        return 0

    def settle_at(self, i: int) -> int:
        """A live entry is done with, whatever it was doing; the next of its key moves up."""
        state = self.state[i]
        self.tally[state] -= 1
        self.state[i] = _DEAD
        self.live -= 1
        if state <= _LEASED:
            self.count_held(self.consumer[i], -1)
        if self.keyed and self.key[i] != 0:
            self.leave_key(i, state)
        return 0

    def leave_key(self, i: int, state: int) -> int:
        table, slot = self.table, self.table.find(self.key[i])
        if state <= _LEASED:
            table.held[slot] -= 1
        else:
            table.waiting[slot] -= 1
        if table.held[slot] == 0 and table.waiting[slot] > 0:
            lowest = table.first[slot]
            while self.state[lowest] == _DEAD:
                lowest = self.link[lowest]
            table.first[slot] = lowest
            self.wake(lowest)
        return 0

    # All anew from the columns

    def rebuild(self) -> int:
        """Derive counts, keys and what is ready from the columns, mending what is out of order by key."""
        for state in range(len(self.tally)):
            self.tally[state] = 0
        self.heap.clear()
        self.table.clear()
        self.holders.clear()
        self.run_consumer, self.run_change = -1, 0
        self.next_due, self.live = _NEVER, 0
        for i in range(self.head, self.count):
            if self.state[i] != _DEAD:
                self.live += 1
                self.enter(i)
        return 0

    def enter(self, i: int) -> int:
        if self.keyed:
            self.link[i] = 0
            if self.key[i] != 0:
                self.enter_key(i, self.table.add(self.key[i]))
        state = self.state[i]
        self.tally[state] += 1
        if state == _READY:
            self.heap.push(i)
        elif state <= _LEASED:
            self.count_held(self.consumer[i], 1)
        if state in (_LEASED, _BACKOFF):
            self.next_due = min(self.next_due, self.time[i])
        return 0

    def enter_key(self, i: int, slot: int) -> int:
        table = self.table
        self.join_key(i, slot)
        is_free = table.held[slot] == 0 or table.owner[slot] == self.consumer[i]
        if self.state[i] <= _LEASED and table.waiting[slot] == 0 and is_free:
            table.held[slot] += 1
            table.owner[slot] = self.consumer[i]
            return 0
        if self.state[i] <= _LEASED:
            self.state[i], self.consumer[i], self.time[i] = _PARKED, -1, 0
        if table.waiting[slot] > 0:
            self.state[i] = _PARKED
        elif self.state[i] == _PARKED and table.held[slot] == 0:
            self.state[i] = _BACKOFF if self.time[i] > 0 else _READY
        table.waiting[slot] += 1
        return 0
