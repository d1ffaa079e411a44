"""One group in one partition: its window, the rules that move messages through it, and what the state log does not know
of it yet. Times are in ms."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.descriptions import Tally
from penstock.kernels import rows
from penstock.kernels.places import Place
from penstock.kernels.window import NEVER_MS, EntryState, Window
from penstock.queues import records
from penstock.queues.records import Entry, Kind, State, StateRecord, entries_of, ranges_of

HELD = (EntryState.INFLIGHT, EntryState.LEASED)
ANY_CONSUMER = -1
NO_DEADLINE = -1
_BY_POLICY = _LATEST = -1
# Of a record: its head, where it ends in a batch, and the first word of what was handed out.
_RECORD_BYTES = 24
_RANGE_BYTES, _ENTRY_BYTES = 16, 8 * records.ENTRY_WORDS


@dataclass(frozen=True, slots=True)
class Limits:
    """What decides over a message that comes back."""

    backoff_ms: array[int]
    """after failure 1, 2, …; one more failure than that is the last"""
    total_timeout_ms: int
    max_returns: int
    window: int
    """unsettled messages a group may hold in a partition"""


class Unsaid(NamedTuple):
    """Records for the state log, and how far they go: of what was noted, nothing is struck off before said()."""

    records: list[bytes]
    next: int
    """what was handed out below it is in the records, or was said before"""
    touched: list[int]
    offsets: int = 0
    ranges: int = 0
    """words"""


class Cursor(Place):
    """Every change is applied at once and noted; unsaid() gives the records that the state log needs to know it too."""

    tally: Tally
    logged_next: int
    """what was handed out below it, the state log knows of"""
    settled_ranges: array[int]
    settled: array[int]
    """what was settled of that, and it does not know of: ranges, and offsets that rise in runs"""
    touched: set[int]
    """messages of which it does not know how they wait"""
    is_placed: bool
    """it does not know either where the cursor was placed"""
    leaving: set[int]
    """on their way to the dead letters: they stay held, and nothing that is said of them counts"""

    def __init__(self, group: int, start: int, history_end: int) -> None:
        """`history_end`: messages below it were there before the group was, and do not count as its depth."""
        super().__init__(group, Window(start), Tally())
        self.history_end = history_end
        self._rested_next = -1
        self._shift = 0
        """what is added to times where they are stored: wall clock minus the time that runs here"""

    # Handing out

    def hand_out(
        self,
        offsets: array[int],
        keys: array[int] | None,
        skip: bytearray | None,
        row: int,
        stop_row: int,
        consumer: int,
        room: int,
        now: int,
        deadline: int,
        limit: int,
        out_rows: array[int],
    ) -> int:
        """New messages from a stored batch, see Window.deliver."""
        window, parked = self.window, self.window.parked
        given = window.deliver(offsets, keys, skip, row, stop_row, consumer, room, now, deadline, limit, out_rows)
        self.tally.delivered += given
        if window.parked > parked:
            # Never handed out: the ranges in the state log would say otherwise.
            passed = offsets[row : window.stopped_row]
            self.touched.update(offset for offset in passed if window.state_of(offset) == EntryState.PARKED)
        if deadline != NO_DEADLINE:
            self.touched.update(offsets[out_rows[i]] for i in range(given))
        return given

    def hand_out_again(
        self,
        below: int,
        consumer: int,
        room: int,
        now: int,
        deadline: int,
        out_offsets: array[int],
        out_deliveries: array[int],
    ) -> int:
        """Messages below an offset that came back, in order."""
        given = self.window.take(consumer, room, now, deadline, below, out_offsets, out_deliveries)
        self.tally.redelivered += given
        self.touched.update(out_offsets[:given])
        return given

    # Settling

    def ack(self, offsets: array[int], deliveries: array[int] | None, consumer: int, *, is_said: bool = False) -> int:
        """How many were settled; the others are stale. `is_said`: the state log knows it from settlement()."""
        if not rows.rises(offsets):
            offsets, deliveries = _sorted(offsets, deliveries)
        offsets, deliveries = self._staying(offsets, deliveries)
        out = array("q", bytes(8 * len(offsets)))
        count = self.window.ack(offsets, deliveries, consumer, out)
        self.tally.acked += count
        self.tally.stale += len(offsets) - count
        if not is_said:
            self._note_settled(out if count == len(out) else out[:count])
        return count

    def held(self, offsets: array[int], deliveries: array[int] | None, consumer: int) -> array[int]:
        """Those of which that delivery is current; the others are counted as stale."""
        pairs = enumerate(offsets)
        current = array(
            "q",
            [o for i, o in pairs if self.is_current(o, _LATEST if deliveries is None else deliveries[i], consumer)],
        )
        self.tally.stale += len(offsets) - len(current)
        return current

    def is_current(self, offset: int, delivery: int, consumer: int) -> bool:
        """Whether the consumer holds it by that delivery, which is the count it came with."""
        entry = self.window.entry(offset)
        return (
            entry is not None
            and offset not in self.leaving
            and entry.state in HELD
            and consumer in (ANY_CONSUMER, entry.consumer)
            and delivery in (_LATEST, entry.deliveries)
        )

    def set_aside(self, offsets: array[int]) -> None:
        """What is held is on its way to the dead letters, until settle()."""
        self.window.extend(offsets, None, ANY_CONSUMER, NEVER_MS)
        self.leaving.update(offsets)

    def settle(self, first: int, stop: int, *, is_said: bool = False) -> int:
        """Whatever waits or is held in first..stop - 1 is done with; how many these were. `is_said` as in ack()."""
        before = self.window.pending
        if stop == first + 1:
            self.leaving.discard(first)
        elif self.leaving:
            self.leaving = {offset for offset in self.leaving if not first <= offset < stop}
        self.window.settle_range(first, stop)
        if first < self.logged_next and not is_said:
            self.settled_ranges.extend((first, min(stop, self.logged_next)))
        return before - self.window.pending

    def settle_aside(self, offsets: array[int], *, is_said: bool = False) -> int:
        """What was set aside, and is among these, is done with; how many these were. `is_said` as in ack()."""
        before = self.window.pending
        self.leaving.difference_update(offsets)
        settled = _runs(offsets)
        for at in range(0, len(settled), 2):
            self.window.settle_range(settled[at], settled[at + 1])
        if not is_said:
            self._note_settled(offsets if rows.rises(offsets) else array("q", sorted(offsets)))
        return before - self.window.pending

    def settle_below(self, offset: int) -> int:
        """commit(group, partition, offset): all below is done with, in the window or not handed out yet."""
        passed = max(offset - self.window.next, 0)
        if self.window.floor >= offset:
            return 0
        return self.settle(self.window.floor, offset) + passed

    def settle_unheld(self, stop: int) -> int:
        """Whatever nobody holds and has no time of its own to wait for is done with, up to `stop` what was not handed
        out yet, too; how many of the former these were."""
        window = self.window
        settled = array("q", bytes(8 * (window.ready + window.parked)))
        count = window.settle_unheld(settled)
        self._note_settled(settled[:count])
        window.pass_to(stop)
        return count

    def pass_to(self, offset: int) -> None:
        """Nothing lies between what was handed out and that offset."""
        self.window.pass_to(offset)

    # Coming back

    def fail(
        self, offsets: array[int], deliveries: array[int] | None, consumer: int, now: int, delay: int | None, of: Limits
    ) -> array[int]:
        """They failed and come again after their backoff. Those that failed once too often are set aside and
        returned, to be moved to the dead letters."""
        offsets, deliveries = self._staying(offsets, deliveries)
        failed, exhausted = array("q", bytes(8 * len(offsets))), array("q", bytes(8 * len(offsets)))
        wait = _BY_POLICY if delay is None else delay
        age = of.total_timeout_ms
        window, held = self.window, self.window.held
        count = window.nack(offsets, deliveries, consumer, now, wait, of.backoff_ms, age, failed, exhausted)
        spent = window.exhausted_last
        if held - window.held > count:
            # Taken back, which counts as nothing: neither as a lease that ran out nor as a return by a restart.
            self.touched.update(window.offsets(EntryState.PARKED))
        self.tally.failed += count + spent
        self.tally.stale += len(offsets) - count - spent
        self.touched.update(failed[:count])
        if spent:
            self.set_aside(exhausted[:spent])
        return exhausted[:spent]

    def give_back(self, consumer: int, counted: bool, of: Limits, now: int) -> array[int]:
        """All that a consumer holds waits for the next one. Those that came back too often are set aside and given."""
        window, room = self.window, self.window.held_by(consumer)
        returned, exhausted = array("q", bytes(8 * room)), array("q", bytes(8 * room))
        if self.leaving:
            mine = self._in_flight(consumer)
            count = window.give_back_some(mine, consumer, counted, of.max_returns, now, returned, exhausted)
        else:
            count = window.give_back(consumer, counted, of.max_returns, now, returned, exhausted)
        self.tally.returned += count
        self.touched.update(returned[:count])
        spent = exhausted[: window.exhausted_last]
        if spent:
            self.set_aside(spent)
        return spent

    def give_back_many(self, consumers: array[int], counted: bool, of: Limits, now: int) -> tuple[int, array[int]]:
        """give_back() of many, whose numbers (int32) rise, in one pass: how many wait for the next one, and those that
        came back too often."""
        window = self.window
        room = sum([window.held_by(consumer) for consumer in consumers])
        if not room:
            return 0, array("q")
        returned, exhausted = array("q", bytes(8 * room)), array("q", bytes(8 * room))
        count = window.give_back_many(consumers, self.leaving, counted, of.max_returns, now, returned, exhausted)
        self.tally.returned += count
        self.touched.update(returned[:count])
        spent = exhausted[: window.exhausted_last]
        if spent:
            self.set_aside(spent)
        return count, spent

    def held_by(self, consumer: int) -> int:
        """Without those that are leaving: they are not the consumer's any more."""
        count = self.window.held_by(consumer)
        if count and self.leaving:
            entries = filter(None, map(self.window.entry, self.leaving))
            count -= sum(1 for entry in entries if entry.consumer == consumer)
        return count

    def oldest_in_flight(self, consumer: int) -> int:
        """The lowest offset that a consumer has; -1 if there is none."""
        if self.leaving:
            return min(self._in_flight(consumer), default=-1)
        return self.window.oldest_held(consumer)

    def _in_flight(self, consumer: int) -> array[int]:
        found = array("q")
        for offset in self.window.offsets(EntryState.INFLIGHT):
            entry = self.window.entry(offset)
            if entry is not None and entry.consumer == consumer and offset not in self.leaving:
                found.append(offset)
        return found

    def _staying(self, offsets: array[int], deliveries: array[int] | None) -> tuple[array[int], array[int] | None]:
        """Without those that are leaving, which count as stale."""
        if not self.leaving or self.leaving.isdisjoint(offsets):
            return offsets, deliveries
        kept = [i for i, offset in enumerate(offsets) if offset not in self.leaving]
        self.tally.stale += len(offsets) - len(kept)
        counts = None if deliveries is None else array("i", [deliveries[i] for i in kept])
        return array("q", [offsets[i] for i in kept]), counts

    def give_back_some(
        self, offsets: array[int], consumer: int, now: int, counted_by: Limits | None = None
    ) -> array[int]:
        """Messages that never reached the consumer they were taken for: nothing counts. With limits it does, and those
        that came back too often are set aside and given."""
        returned, exhausted = array("q", bytes(8 * len(offsets))), array("q", bytes(8 * len(offsets)))
        window, held = self.window, self.window.held
        most = 0 if counted_by is None else counted_by.max_returns
        count = window.give_back_some(offsets, consumer, counted_by is not None, most, now, returned, exhausted)
        # The state log may know of their leases.
        self.touched.update(returned[:count])
        if held - window.held > count:
            self.touched.update(window.offsets(EntryState.PARKED))
        if counted_by is not None:
            self.tally.returned += count
        spent = exhausted[: window.exhausted_last]
        if spent:
            self.set_aside(spent)
        return spent

    def extend(self, offsets: array[int], deliveries: array[int] | None, consumer: int, deadline: int) -> int:
        offsets, deliveries = self._staying(offsets, deliveries)
        count = self.window.extend(offsets, deliveries, consumer, deadline)
        self.touched.update(offsets)
        return count

    def claim(self, offsets: array[int], consumer: int, now: int, deadline: int) -> tuple[array[int], array[int]]:
        """Hand what others hold to a consumer, which counts as a delivery and as nothing else: those that went, and how
        often each was handed out. Of a key all that is held goes, or nothing."""
        if self.leaving:
            offsets = array("q", [offset for offset in offsets if offset not in self.leaving])
        out = array("q", bytes(8 * len(offsets)))
        claimed = out[: self.window.claim(offsets, ANY_CONSUMER, consumer, now, deadline, out)]
        self.tally.redelivered += len(claimed)
        self.touched.update(claimed)
        return claimed, array("i", [entry.deliveries for entry in filter(None, map(self.window.entry, claimed))])

    def due(self, now: int) -> array[int]:
        """Let what waited long enough be handed out again; the leases that ran out, still held."""
        out = array("q", bytes(8 * self.window.held))
        return out[: self.window.expire(now, out)]

    def rest(self) -> None:
        """To be called now and then: a window that nobody used since the last time lets go of its memory."""
        if self.window.next == self._rested_next:
            self.window.give_memory_back()
        self._rested_next = self.window.next

    # Numbers

    def depth(self, end: int, missing: int, first: int = 0) -> int:
        """What the group has not settled of messages that came after it, from `first` on; `missing` offsets of those
        not handed out yet, up to `end`, name none."""
        window, first = self.window, max(first, self.history_end)
        if window.floor >= first:
            return max(end - window.next - missing, 0) + window.pending
        ahead = end - max(window.next, first) - missing
        return max(ahead, 0) + window.pending_from(first)

    # The state log

    @property
    def is_dirty(self) -> bool:
        if self.settled or self.settled_ranges or self.touched or self.is_placed:
            return True
        return self.window.next != self.logged_next

    @property
    def unsaid_span(self) -> int:
        """How many offsets were passed of which the state log does not know."""
        return self.window.next - self.logged_next

    def place(self, start: int, history_end: int) -> None:
        """Begin anew at an offset, forgetting everything."""
        self.window, self.history_end, self.logged_next = Window(start), history_end, start
        self.settled, self.settled_ranges = array("q"), array("q")
        self.touched.clear()
        self.leaving.clear()
        self.is_placed = True

    def unsaid(self, room: int) -> Unsaid:
        """What the state log does not know yet, as much of it as so many bytes hold. Changes nothing."""
        found: list[bytes] = []
        room = self._place(found, room)
        following, room = self._hand_outs(found, self.window.next, room)
        touched, room = self._notes(found, following, room)
        ranges = min(len(self.settled_ranges), 2 * max((room - _RECORD_BYTES) // _RANGE_BYTES, 0))
        room -= 8 * ranges
        offsets = min(len(self.settled), max((room - _RECORD_BYTES) // _RANGE_BYTES, 0))
        if offsets or ranges:
            settled = self.settled_ranges[:ranges] + _runs(self.settled[:offsets])
            found.append(records.encode(records.settled(self.group, settled)))
        return Unsaid(found, following, touched, offsets, ranges)

    def is_all(self, unsaid: Unsaid) -> bool:
        """Whether nothing is left to say behind it."""
        noted = len(unsaid.touched), unsaid.offsets, unsaid.ranges
        is_noted = noted == (len(self.touched), len(self.settled), len(self.settled_ranges))
        return is_noted and unsaid.next == self.window.next

    def settlement(self, offsets: array[int]) -> Unsaid:
        """The records of settling these, which are held, in somebody else's frame: with what was handed out up to them,
        and without what else was noted. Changes nothing."""
        found: list[bytes] = []
        self._place(found, 0)
        before = self.logged_next
        mine = offsets if rows.rises(offsets) else array("q", sorted(set(offsets)))
        following = max(before, mine[-1] + 1)
        if following > before:
            ranges = self.window.ranges(before, following)
            fresh = mine[bisect_left(mine, before) :]
            if len(fresh) == sum(ranges[1::2]) - sum(ranges[::2]):
                ranges, mine = array("q"), mine[: -len(fresh)]
            found.append(records.encode(records.delivered(self.group, following, ranges)))
        if mine:
            found.append(records.encode(records.settled(self.group, _runs(mine))))
        return Unsaid(found, following, [])

    def said(self, unsaid: Unsaid) -> None:
        """The state log knows it now. Nothing was noted in between."""
        self.logged_next = unsaid.next
        self.is_placed = False
        self.touched.difference_update(unsaid.touched)
        if unsaid.offsets:
            self.settled = self.settled[unsaid.offsets :]
        if unsaid.ranges:
            self.settled_ranges = self.settled_ranges[unsaid.ranges :]

    def _place(self, found: list[bytes], room: int) -> int:
        """Always said first, whatever the room: a few bytes."""
        if not self.is_placed:
            return room
        found.append(records.encode(records.placed(self.group, self.logged_next, self.history_end)))
        return room - _RECORD_BYTES - _RANGE_BYTES

    def _hand_outs(self, found: list[bytes], following: int, room: int) -> tuple[int, int]:
        """Up to which offset they are said, and the room that is left."""
        before = self.logged_next
        if following == before:
            return following, room
        ranges = self.window.ranges(before, following)
        most = max((room - _RECORD_BYTES) // _RANGE_BYTES, 0)
        if len(ranges) > 2 * most:
            following, ranges = ranges[2 * most], ranges[: 2 * most]
        if following == before:
            return following, room
        found.append(records.encode(records.delivered(self.group, following, ranges)))
        return following, room - _RECORD_BYTES - 8 * len(ranges)

    def _notes(self, found: list[bytes], below: int, room: int) -> tuple[list[int], int]:
        """Of single messages below an offset: which, and the room that is left."""
        if not self.touched:
            return [], room
        most = max((room - _RECORD_BYTES) // _ENTRY_BYTES, 0)
        told: list[int] = []
        noted: list[Entry] = []
        for offset in sorted(self.touched):
            if offset >= below or len(noted) == most:
                break
            told.append(offset)
            if (entry := self._entry(offset)) is not None:
                noted.append(entry)
        if noted:
            found.append(records.encode(records.entries(self.group, noted)))
            room -= _RECORD_BYTES + _ENTRY_BYTES * len(noted)
        return told, room

    def move(self, shift: int) -> bool:
        """The wall clock is so far from the time that runs here: whether stored times have to be stored anew."""
        waiting = self.window.offsets() if shift != self._shift else ()
        self._shift = shift
        self.touched.update(waiting)
        return bool(waiting)

    def dump(self) -> list[StateRecord]:
        """All of it, as unsaid() would give it for a cursor that began at its floor."""
        window, group = self.window, self.group
        noted = [entry for offset in window.offsets() if (entry := self._entry(offset)) is not None]
        return [
            records.placed(group, window.floor, self.history_end),
            records.delivered(group, window.next, window.ranges(window.floor, window.next)),
            records.entries(group, noted),
        ]

    def apply(self, record: StateRecord) -> None:
        """Replay. restored() when all are."""
        window, words = self.window, record.words
        if record.kind is Kind.PLACED:
            self.place(words[0], words[1])
        elif record.kind is Kind.DELIVERED:
            for first, stop in ranges_of(words, 1):
                window.restore_range(first, stop)
            window.pass_to(words[0])
        elif record.kind is Kind.ENTRIES:
            for entry in entries_of(record):
                window.restore(*_free(entry))
                self.touched.add(entry.offset)
        elif record.kind is Kind.SETTLED:
            for first, stop in ranges_of(words):
                window.settle_range(first, stop)

    def restored(self, start: int, max_returns: int) -> array[int]:
        """The log begins at `start` now. What was held by a connection is free, and counts as returned; leases go on.
        Those that came back too often are given, to be moved to the dead letters."""
        window = self.window
        if window.floor < start:
            window.settle_range(window.floor, start)
        for offset in window.offsets():
            if offset not in self.touched and (found := window.entry(offset)) is not None:
                window.restore(offset, State.READY, 0, found.deliveries, found.failures, found.returns + 1, found.first)
        spent = array("q")
        for entry in filter(None, map(window.entry, window.offsets())):
            if entry.returns > max_returns:
                counts = entry.deliveries, entry.failures, entry.returns
                window.restore(entry.offset, State.LEASED, NEVER_MS, *counts, entry.first)
                spent.append(entry.offset)
        window.rebuild()
        self.touched = set(window.offsets())
        self.logged_next, self.is_placed, self.leaving = window.next, False, set(spent)
        return spent

    def _entry(self, offset: int) -> Entry | None:
        found = self.window.entry(offset)
        if found is None:
            return None
        state, time = _STATES[EntryState(found.state)], found.time
        if offset in self.leaving:
            # A broker that opens now takes its time for over, and gives up on it again.
            state, time = State.LEASED, 0
        first = found.first + self._shift if found.first else 0
        time += self._shift if 0 < time < NEVER_MS else 0
        return Entry(offset, state, time, found.deliveries, found.failures, found.returns, first)

    def _note_settled(self, offsets: array[int]) -> None:
        if not offsets or offsets[0] >= self.logged_next:
            return
        known = bisect_left(offsets, self.logged_next) if offsets[-1] >= self.logged_next else len(offsets)
        self.settled.extend(offsets[:known])


_STATES = {
    EntryState.INFLIGHT: State.HELD,
    EntryState.LEASED: State.LEASED,
    EntryState.BACKOFF: State.BACKOFF,
    EntryState.READY: State.READY,
    # Its own backoff, if it has one, goes on when it is its turn.
    EntryState.PARKED: State.BACKOFF,
}


def _free(entry: Entry) -> Entry:
    return entry._replace(state=State.READY, returns=entry.returns + 1) if entry.state == State.HELD else entry


def _runs(offsets: array[int]) -> array[int]:
    """As ranges."""
    out = array("q", bytes(16 * len(offsets)))
    count = rows.runs(offsets, out)
    if count < 0:
        count = rows.runs(array("q", sorted(offsets)), out)
    return out[: 2 * count]


def _sorted(offsets: array[int], deliveries: array[int] | None) -> tuple[array[int], array[int] | None]:
    if deliveries is None:
        return array("q", sorted(set(offsets))), None
    pairs = sorted(zip(offsets, deliveries, strict=True))
    return array("q", [pair[0] for pair in pairs]), array("i", [pair[1] for pair in pairs])
