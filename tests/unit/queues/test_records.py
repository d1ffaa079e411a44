from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidArgument
from penstock.queues import records
from penstock.queues.records import Entry, Kind, State, StateRecord, decode, encode, entries_of, ranges_of

WORDS = st.integers(0, 2**63 - 1)
GROUPS = st.integers(0, 2**32 - 1)
ENTRIES = st.builds(Entry, WORDS, st.sampled_from(list(State)), WORDS, WORDS, WORDS, WORDS, WORDS)


@given(GROUPS, WORDS, st.lists(st.tuples(WORDS, WORDS)))
def test_ranges_survive_a_round_trip(group: int, following: int, pairs: list[tuple[int, int]]) -> None:
    words = array("q", [word for pair in pairs for word in pair])
    delivered = decode(encode(records.delivered(group, following, words)))
    assert (delivered.kind, delivered.group, delivered.words[0]) == (Kind.DELIVERED, group, following)
    assert list(ranges_of(delivered.words, 1)) == pairs
    settled = decode(encode(records.settled(group, words)))
    assert (settled.kind, list(ranges_of(settled.words))) == (Kind.SETTLED, pairs)


@given(GROUPS, st.lists(ENTRIES, max_size=5))
def test_entries_survive_a_round_trip(group: int, found: list[Entry]) -> None:
    record = decode(encode(records.entries(group, found)))
    assert (record.kind, record.group, list(entries_of(record))) == (Kind.ENTRIES, group, found)


@given(st.binary())
def test_calls_and_places_survive_a_round_trip(data: bytes) -> None:
    assert decode(encode(records.call(data))) == StateRecord(Kind.CALL, 0, array("q"), data)
    assert list(decode(encode(records.placed(7, 1, 2))).words) == [1, 2]


@given(st.binary(max_size=200))
def test_bytes_that_are_no_record_are_refused_by_name(data: bytes) -> None:
    try:
        record = decode(data)
    except InvalidArgument:
        return
    again = decode(encode(record))
    assert again == record


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "shorter than its head"),
        (bytes(8), "number 0"),
        (encode(records.placed(1, 2, 3))[:-1], "inside a word"),
        (encode(records.placed(1, 2, 3))[:-8], "PLACED has 1 words"),
        (encode(records.settled(1, array("q", [1]))), "SETTLED has 1 words"),
        (encode(records.delivered(1, 2, array("q", [1]))), "DELIVERED has 2 words"),
    ],
)
def test_what_is_wrong_with_a_record_is_said(data: bytes, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        decode(data)
