"""The unsettled messages of one group in one partition, as columns: who holds them, who waits, and what comes next.

Memory is per unsettled message: every offset below `next` that has no entry is settled. Offsets, times (ms) and counts
are int64 >= 0, consumers 0 to 2**31 - 1. A settlement names offset, delivery count (-1: whichever) and consumer
(-1: whoever holds it); one that is not current is stale and changes nothing. Buffers for results are as long as what
is asked for."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import batch, hashing, memory
from penstock.kernels.pending import NEVER_MS, EntryState, PendingEntry
from penstock.kernels.retries import Retries

__all__ = ["NEVER_MS", "EntryState", "PendingEntry", "Window"]

Ints: TypeAlias = "array[int] | memoryview[int]"

_DEAD, _INFLIGHT, _LEASED, _BACKOFF, _READY, _PARKED = range(6)

# Of bytes 28 to 31 of a batch: compressed, or with deltas or expiries.
_NOT_PLAIN = 0x00FF0007


class Window(Retries):
    """One writer. Nothing here is durable: the caller logs what it was told."""

    def __init__(self, start: int) -> None:
        Retries.__init__(self, start)
        self.stopped_row = self.skipped_last = 0

    # Handing out

    def deliver(
        self,
        offsets: Ints,
        keys: Ints | None,
        skip: Buffer | None,
        row: int,
        stop_row: int,
        consumer: int,
        room: int,
        now: int,
        deadline: int,
        limit: int,
        out_rows: array[int],
    ) -> int:
        """New entries for rows row..stop_row - 1 of a stored batch; how many the consumer was given, their rows in
        `out_rows` (int32). Rows below `next` and rows with a mark in `skip` are passed (skipped_last counts the
        latter); a row whose key waits, or is held by another consumer, is parked. Held until `deadline`, or without
        one if that is negative. Stops after `room` rows given or `limit` entries in the window; stopped_row is where to
        go on."""
        if row < 0 or stop_row > len(offsets) or consumer < 0:
            raise InvalidArgument("rows outside the batch, or a negative consumer")
        while row < stop_row and offsets[row] < self.next:
            row += 1
        self.stopped_row, self.skipped_last = row, 0
        room = min(room, len(out_rows))
        if keys is None and skip is None and not self.keyed:
            stop_row = min(stop_row, row + max(min(room, limit - self.live), 0))
            return self._deliver_run(offsets, row, stop_row, consumer, now, deadline, out_rows)
        given = 0
        while row < stop_row and given < room and self.live < limit:
            if offsets[row] < self.next:
                raise InvalidArgument("offsets do not rise")
            if skip is not None and skip[row] != 0:
                self.skipped_last += 1
                self.next = offsets[row] + 1
            elif self._deliver_one(offsets[row], 0 if keys is None else keys[row], consumer, now, deadline):
                out_rows[given] = row
                given += 1
            row += 1
        self.stopped_row = row
        return given

    def _deliver_run(
        self, offsets: Ints, row: int, stop_row: int, consumer: int, now: int, deadline: int, out_rows: array[int]
    ) -> int:
        """What has no key, in one go."""
        if stop_row <= row:
            return 0
        for i in range(row + 1, stop_row):
            if offsets[i] <= offsets[i - 1]:
                raise InvalidArgument("offsets do not rise")
        given = stop_row - row
        self.make_room(given)
        at = self.count
        state, time = (_LEASED, deadline) if deadline >= 0 else (_INFLIGHT, now)
        column, times, firsts, consumers = self.offset, self.time, self.first, self.consumer
        counts, states = self.deliveries, self.state
        for i in range(given):
            out_rows[i] = row + i
            column[at + i] = offsets[row + i]
            times[at + i] = time
            firsts[at + i] = now
            consumers[at + i] = consumer
            counts[at + i] = 1
            states[at + i] = state
        self.count += given
        self.live += given
        self.tally[state] += given
        self.count_held(consumer, given)
        self.next = offsets[stop_row - 1] + 1
        self.stopped_row = stop_row
        if 0 <= deadline < self.next_due:
            self.next_due = deadline
        return given

    def _deliver_one(self, offset: int, key: int, consumer: int, now: int, deadline: int) -> int:
        """1 if the consumer got it, 0 if it was parked."""
        if key == 0:
            return 1 + self.hold(self.append(offset, 0, _READY), consumer, now, deadline)
        self.use_keys()
        table, slot = self.table, self.table.add(key)
        i = self.append(offset, key, _PARKED)
        self.join_key(i, slot)
        if table.waiting[slot] > 0 or (table.held[slot] > 0 and table.owner[slot] != consumer):
            table.waiting[slot] += 1
            return 0
        table.held[slot] += 1
        table.owner[slot] = consumer
        return 1 + self.hold(i, consumer, now, deadline)

    def deliver_whole(self, data: Buffer, by_key: bool, consumer: int, now: int, room: int, too_old: int = -1) -> int:
        """deliver() of all messages of a checked batch, in flight, in one call and without arrays, which is what small
        batches cost most. How many; 0, and nothing changed, unless the batch comes next, `room` takes all of it, none
        is from `too_old` (ms) or before, nothing is ready, no message would be parked, and the batch is plain: neither
        compressed nor thinned, without expiries and without a producer."""
        count = memory.load_u32(data, 20)
        if count > room or memory.load_i64(data, 8) != self.next or not self._is_plain(data, consumer, too_old):
            return 0
        at = batch.keys_at(data) if by_key else -1
        if at >= 0 and self._free_rows(data, at, count, 0, count, consumer) < count:
            return 0
        return self._deliver_rows(data, at, count, 0, count, consumer, now)

    def deliver_some(self, data: Buffer, by_key: bool, consumer: int, now: int, room: int, too_old: int = -1) -> int:
        """The same for a part of a batch: of its messages from the next one on as many as there is room for and none
        has to be parked."""
        count = memory.load_u32(data, 20)
        row = self.next - memory.load_i64(data, 8)
        if room < 1 or row < 0 or row >= count or not self._is_plain(data, consumer, too_old):
            return 0
        given = min(room, count - row)
        at = batch.keys_at(data) if by_key else -1
        if at >= 0:
            given = self._free_rows(data, at, count, row, row + given, consumer)
        return self._deliver_rows(data, at, count, row, row + given, consumer, now)

    def _is_plain(self, data: Buffer, consumer: int, too_old: int) -> bool:
        """Whether its messages may be handed out without a closer look, to that consumer."""
        if consumer < 0 or self.tally[_READY] > 0 or memory.load_i64(data, 32) <= too_old:
            return False
        return not memory.load_u32(data, 28) & _NOT_PLAIN and memory.load_i64(data, 48) == 0

    def _deliver_rows(self, data: Buffer, at: int, count: int, row: int, stop: int, consumer: int, now: int) -> int:
        """How many: rows row..stop - 1, of which the first comes next, with the keys at `at` (-1: without)."""
        self.make_room(stop - row)
        for i in range(row, stop):
            key = 0 if at < 0 else _key_of(data, at, count, i)
            self._deliver_one(self.next, key, consumer, now, -1)
        return stop - row

    def _free_rows(self, data: Buffer, at: int, count: int, row: int, stop: int, consumer: int) -> int:
        """How many of row..stop - 1 come before the first whose key waits or is held by another consumer."""
        table = self.table
        if self.live == 0:
            return stop - row
        for i in range(row, stop):
            key = _key_of(data, at, count, i)
            slot = table.find(key) if key != 0 else -1
            if slot >= 0 and (table.waiting[slot] > 0 or (table.held[slot] > 0 and table.owner[slot] != consumer)):
                return i - row
        return stop - row

    def take(
        self,
        consumer: int,
        room: int,
        now: int,
        deadline: int,
        below: int,
        out_offsets: array[int],
        out_deliveries: array[int],
    ) -> int:
        """Hand what is ready below an offset to the consumer, in order: offsets (int64) and delivery counts (int32).
        What belongs to a key that another one holds is parked."""
        if consumer < 0:
            raise InvalidArgument("a consumer is negative")
        room = min(room, len(out_offsets), len(out_deliveries))
        given = 0
        while given < room and self.tally[_READY] > 0:
            i = self.heap.pop()
            if i < 0:
                break
            if self.state[i] != _READY:
                continue
            if self.offset[i] >= below:
                self.heap.push(i)
                break
            if self.take_ready(i, consumer, now, deadline):
                out_offsets[given] = self.offset[i]
                out_deliveries[given] = self.deliveries[i]
                given += 1
        return given

    def pass_to(self, offset: int) -> int:
        """All from `next` up to the offset is settled."""
        self.next = max(self.next, offset)
        return 0

    # Settling

    def ack(
        self,
        offsets: Ints,
        deliveries: Ints | None,
        consumer: int,
        out_settled: array[int],
        out_stale: bytearray | None = None,
    ) -> int:
        """Settle what is held. How many were, their offsets in `out_settled`; stale_last counts the others, and
        `out_stale` marks them. Quickest when offsets rise."""
        self.check_out(offsets, deliveries, out_settled)
        if not self.keyed and consumer >= 0:
            settled = self._ack_run(offsets, deliveries, consumer, out_settled, out_stale)
        else:
            settled = self._ack_each(offsets, deliveries, consumer, out_settled, out_stale)
        self.stale_last = len(offsets) - settled
        self.tidy()
        return settled

    def ack_whole(self, first: int, stop: int, consumer: int) -> bool:
        """Settle first..stop - 1, if the consumer holds all of them since they were handed out for the first time; else
        nothing changes."""
        at, count = self.seek(first, self.head), stop - first
        if first < 0 or count < 1 or count > self.count - at:
            return False
        for i in range(count):
            if self.offset[at + i] != first + i or self.consumer[at + i] != consumer:
                return False
            if self.state[at + i] == _DEAD or self.state[at + i] > _LEASED or self.deliveries[at + i] != 1:
                return False
        for i in range(count):
            self.settle_at(at + i)
        self.tidy()
        return True

    def _ack_run(
        self,
        offsets: Ints,
        deliveries: Ints | None,
        consumer: int,
        out_settled: array[int],
        out_stale: bytearray | None,
    ) -> int:
        """Of one consumer and without keys. Columns are taken into locals: a store to a column of bytes might change
        anything as far as a C compiler knows, so that it would load all of them anew."""
        column, states, consumers, counts = self.offset, self.state, self.consumer, self.deliveries
        settled = leases = 0
        at, count = self.head, self.count
        for k in range(len(offsets)):
            if at >= count or column[at] != offsets[k]:
                at = self.seek(offsets[k], at)
            state = states[at] if at < count and column[at] == offsets[k] else _DEAD
            if (
                state in (_INFLIGHT, _LEASED)
                and consumers[at] == consumer
                and (deliveries is None or deliveries[k] < 0 or deliveries[k] == counts[at])
            ):
                leases += state == _LEASED
                states[at] = _DEAD
                out_settled[settled] = offsets[k]
                settled += 1
                at += 1
            elif out_stale is not None:
                out_stale[k] = 1
        self.live -= settled
        self.tally[_LEASED] -= leases
        self.tally[_INFLIGHT] -= settled - leases
        self.count_held(consumer, -settled)
        return settled

    def _ack_each(
        self,
        offsets: Ints,
        deliveries: Ints | None,
        consumer: int,
        out_settled: array[int],
        out_stale: bytearray | None,
    ) -> int:
        settled = 0
        at = self.head
        for k in range(len(offsets)):
            at = self.seek_held(offsets[k], -1 if deliveries is None else deliveries[k], consumer, at)
            if at >= 0:
                self.settle_at(at)
                out_settled[settled] = offsets[k]
                settled += 1
                at += 1
            else:
                at = ~at
                if out_stale is not None:
                    out_stale[k] = 1
        return settled

    def settle_below(self, offset: int) -> int:
        """All below is settled, whatever it was doing, handed out or not; how many entries that were."""
        settled = self._settle_between(0, offset)
        self.next = max(self.next, offset)
        return settled

    def settle_range(self, first: int, stop: int) -> int:
        """All in first..stop - 1 is settled, whatever it was doing; how many entries that were. Where the range lies
        beyond `next`, what it leaves out before it is ready, never delivered."""
        settled = self._settle_between(first, stop)
        if stop > max(self.next, first):
            for offset in range(self.next, first):
                self.heap.push(self.append(offset, 0, _READY))
            self.next = stop
        return settled

    def settle(self, offsets: Ints) -> int:
        """The same for single offsets."""
        settled = 0
        for k in range(len(offsets)):
            settled += self.settle_range(offsets[k], offsets[k] + 1)
        return settled

    def settle_unheld(self, out_settled: array[int]) -> int:
        """Whatever is ready, or parked, is settled; how many entries that were, their offsets in `out_settled`."""
        if len(out_settled) < self.tally[_READY] + self.tally[_PARKED]:
            raise InvalidArgument("a buffer for results is too short")
        settled = 0
        for i in range(self.head, self.count):
            if self.state[i] >= _READY:
                out_settled[settled] = self.offset[i]
                settled += 1
                self.settle_at(i)
        self.tidy()
        return settled

    def _settle_between(self, first: int, stop: int) -> int:
        settled = 0
        for i in range(self.seek(first, self.head), self.seek(stop, self.head)):
            if self.state[i] != _DEAD:
                self.settle_at(i)
                settled += 1
        self.tidy()
        return settled


def _key_of(data: Buffer, at: int, count: int, i: int) -> int:
    """Hash of key i of the `count` in a batch, whose offsets begin at `at`."""
    first_byte = at + ((4 * count + 11) & -8)
    start, stop = memory.load_i32(data, at + 4 * i), memory.load_i32(data, at + 4 * i + 4)
    return hashing.wide_hash(data, first_byte + start, first_byte + stop)
