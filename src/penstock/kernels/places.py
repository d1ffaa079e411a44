"""Where groups are in partitions, as numbers that every message moves, and what their state logs do not know of it.

Offsets and words are int64, groups uint32. What the numbers mean, queues/cursor.py and broker/queues/unit.py say; what
records are made of, queues/records.py."""

from __future__ import annotations

from array import array
from typing import Any

from penstock.kernels.staged import StagedLog
from penstock.kernels.window import Window

_DELIVERED, _SETTLED = 1, 3
_GROUP_BITS = 32
# Of a part of a frame and of a record in it, as log/journal/late.py has them.
_PART_BYTES, _RECORD_BYTES = 128, 4


class Place:
    """Where a group is in a partition."""

    def __init__(self, group: int, window: Window, tally: Any) -> None:
        self.group, self.window, self.tally = group, window, tally
        self.logged_next = window.next
        self.settled_ranges, self.settled = array("q"), array("q")
        self.touched: set[int] = set()
        self.leaving: set[int] = set()
        self.is_placed = False

    def note_acked(self, first: int, stop: int) -> None:
        """first..stop - 1 were settled in the window."""
        self.tally.acked += stop - first
        if first >= self.logged_next:
            return
        ranges = self.settled_ranges
        last = len(ranges) - 1
        stop = min(stop, self.logged_next)
        if last > 0 and ranges[last] == first:
            ranges[last] = stop
        else:
            ranges.extend((first, stop))

    def is_plain(self) -> bool:
        """All that it has to say is what was handed out, and what was settled in runs."""
        return not self.is_placed and not len(self.touched) and not len(self.settled)


class Partition:
    """A partition at work."""

    __slots__ = ("bytes_since_snapshot", "cursors", "data", "partition", "records_since_snapshot", "state")

    def __init__(self, partition: int, data: StagedLog, state: StagedLog | None) -> None:
        self.partition, self.data, self.state = partition, data, state
        self.cursors: dict[int, Any] = {}
        self.records_since_snapshot = self.bytes_since_snapshot = 0


class Said:
    """What partitions say to their state logs: records one behind the other, and how many each of them has."""

    def __init__(self, room: int) -> None:
        self.room = room
        """bytes that a frame has left"""
        self.words = array("q")
        self.starts, self.ends = array("i"), array("i")
        self.units: list[Any] = []
        self.counts: list[int] = []
        self.nexts: list[int] = []

    def end_record(self, start: int) -> int:
        """All words behind so many are one."""
        self.starts.append(8 * start)
        self.ends.append(8 * len(self.words))
        return 0


def say(units: list[Any], first: int, said: Said) -> int:
    """What was noted of partitions from the first one on, in the order in which they are asked, as far as there is room
    and each of them has one place, of which little is to be said: the place of the first of which that does not
    hold. Changes nothing of them before struck_off()."""
    for i in range(first, len(units)):
        if not say_one(units[i], said):
            return i
    return len(units)


def say_one(unit: Partition, said: Said) -> bool:
    if len(unit.cursors) != 1 or unit.state is None or unit.state.fault is not None:
        return False
    place = only_place(unit.cursors)
    if not place.is_plain():
        return False
    words, before, records = said.words, len(said.words), len(said.starts)
    following = place.window.next
    if following != place.logged_next:
        words.append(_DELIVERED | place.group << _GROUP_BITS)
        words.append(following)
        if place.window.live:
            place.window.add_ranges(place.logged_next, following, words)
        said.end_record(before)
    if len(place.settled_ranges):
        at = len(words)
        words.append(_SETTLED | place.group << _GROUP_BITS)
        words.extend(place.settled_ranges)
        said.end_record(at)
    count = len(said.starts) - records
    size = _PART_BYTES + 8 * (len(words) - before) + _RECORD_BYTES * count if count else 0
    if size > said.room:
        del words[before:], said.starts[records:], said.ends[records:]
        return False
    said.room -= size
    said.units.append(unit)
    said.counts.append(count)
    said.nexts.append(following)
    return True


def only_place(cursors: dict[int, Any]) -> Place:
    for place in cursors.values():
        return as_place(place)
    raise KeyError("a partition without a place")


def as_place(place: Place) -> Place:
    return place


def strike_off(said: Said, units: dict[Any, None]) -> None:
    """Their logs know it: they have nothing more to say, and are in `units` no more."""
    at = 0
    for i in range(len(said.units)):
        strike_off_one(said.units[i], said, i, at)
        at += said.counts[i]
        del units[said.units[i]]


def strike_off_one(unit: Partition, said: Said, i: int, first: int) -> int:
    place = only_place(unit.cursors)
    place.logged_next = said.nexts[i]
    if len(place.settled_ranges):
        place.settled_ranges = array("q")
    count = said.counts[i]
    if count:
        unit.records_since_snapshot += count
        unit.bytes_since_snapshot += said.ends[first + count - 1] - said.starts[first]
    return 0
