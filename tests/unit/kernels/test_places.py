"""What many partitions say to their state logs, against what each of them says by itself."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

from penstock.kernels import places as compiled_places
from penstock.kernels.staged import Span, StagedLog
from penstock.log.journal.late import values_bytes
from penstock.queues.cursor import NO_DEADLINE, Cursor

KERNELS = pytest.mark.parametrize("kernel", builds("places"))
PLENTY = 1 << 20


def lot(number: int, *cursors: Cursor) -> compiled_places.Partition:
    made = compiled_places.Partition(number, StagedLog(number, Span(0, 0, 0)), StagedLog(100 + number, Span(0, 0, 0)))
    made.cursors.update({cursor.group: cursor for cursor in cursors})
    return made


def cursor_after(steps: list[tuple[str, int]], group: int) -> Cursor:
    """Hand-outs of so many, settlements of runs, and what was said between."""
    cursor, rows = Cursor(group, 0, 0), array("i", bytes(4 * 64))
    for step, size in steps:
        following = cursor.window.next
        if step == "hand out":
            offsets = array("q", range(following, following + size))
            cursor.hand_out(offsets, None, None, 0, size, 1, size, 1000, NO_DEADLINE, PLENTY, rows)
        elif step == "settle" and cursor.window.pending:
            first = cursor.window.offsets()[0]
            stop = first + size
            while stop > first + 1 and not cursor.window.ack_whole(first, stop, 1):
                stop -= 1
            if stop > first + 1:
                cursor.note_acked(first, stop)
        elif step == "ack" and cursor.window.pending:
            cursor.ack(cursor.window.offsets()[-size:], None, 1)
        elif step == "say":
            cursor.said(cursor.unsaid(PLENTY))
        elif step == "fail" and cursor.window.pending:
            cursor.touched.add(cursor.window.offsets()[0])
    return cursor


steps = st.lists(
    st.tuples(st.sampled_from(["hand out", "hand out", "settle", "settle", "say", "ack", "fail"]), st.integers(1, 6)),
    max_size=8,
)


def records_of(said: Any) -> list[list[bytes]]:
    source, at = said.words.tobytes(), 0
    every = [source[start:end] for start, end in zip(said.starts, said.ends, strict=True)]
    found = []
    for count in said.counts:
        found.append(every[at : at + count])
        at += count
    return found


@KERNELS
@given(walks=st.lists(steps, min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_many_say_what_each_says_by_itself(kernel: Any, walks: list[list[tuple[str, int]]]) -> None:
    quick = [lot(i, cursor_after(walk, i + 3)) for i, walk in enumerate(walks)]
    slow = [cursor_after(walk, i + 3) for i, walk in enumerate(walks)]
    said = kernel.Said(PLENTY)
    stop = kernel.say(quick, 0, said)
    expected = [cursor.unsaid(PLENTY).records for cursor in slow]
    assert records_of(said) == expected[:stop]
    sizes = [values_bytes(records) for records in expected[:stop] if records]
    assert said.room == PLENTY - sum(sizes)
    if stop < len(slow):
        assert slow[stop].touched or slow[stop].settled
    units = dict.fromkeys(quick)
    kernel.strike_off(said, units)
    assert list(units) == quick[stop:]
    for unit, cursor in zip(quick[:stop], slow, strict=False):
        cursor.said(cursor.unsaid(PLENTY))
        mine = unit.cursors[cursor.group]
        assert (mine.logged_next, mine.is_dirty) == (cursor.logged_next, cursor.is_dirty) == (mine.window.next, False)
    assert [unit.records_since_snapshot for unit in quick[:stop]] == list(map(len, expected[:stop]))
    sizes = [sum(map(len, records)) for records in expected[:stop]]
    assert [unit.bytes_since_snapshot for unit in quick[:stop]] == sizes


@KERNELS
def test_what_does_not_fit_or_is_not_plain_waits(kernel: Any) -> None:
    walk = [("hand out", 4), ("settle", 2)]
    size = values_bytes(cursor_after(walk, 1).unsaid(PLENTY).records)
    units = [lot(i, cursor_after(walk, 1)) for i in range(3)]
    said = kernel.Said(2 * size + size - 1)
    assert kernel.say(units, 0, said) == 2
    assert (said.room, len(said.starts), len(said.counts)) == (size - 1, 2, 2)
    several, faulty, placed = (lot(i, cursor_after(walk, 1)) for i in range(3))
    several.cursors[9] = Cursor(9, 0, 0)
    assert faulty.state is not None
    faulty.state.fault = RuntimeError()
    placed.cursors[1].place(5, 0)
    for unit in (several, faulty, placed):
        assert kernel.say([units[0], unit], 0, kernel.Said(PLENTY)) == 1
        assert kernel.say([units[0], unit, units[1]], 2, kernel.Said(PLENTY)) == 3
