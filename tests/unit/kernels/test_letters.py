"""Letters that are made in bulk are those that are made one by one."""

from __future__ import annotations

from array import array
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import both, builds
from tests.support.letters import columns_for_move, dead_letter, to_properties

from penstock.log.batch import Batch, Row, encode, seal
from penstock.log.columns import Columns, Spans
from penstock.queues import deadletter
from penstock.queues.deadletter import FACTS, DeadLetter, Reason
from penstock.queues.names import GroupName, MessageId
from penstock.queues.properties import encode_user_properties

BUILDS = pytest.mark.parametrize("kernel", builds("letters"))
SHIFT = 1_000
NEVER_TOO_MUCH = (1 << 30, 1 << 30, 1 << 20)
EARLIER = DeadLetter(MessageId("old", 1, 2, 3), GroupName("g"), Reason.REJECTED, 5, "no")
OWN = st.lists(st.tuples(st.sampled_from(["a", "dlq-x", "dlq-detail"]), st.just("v")), max_size=3).map(
    encode_user_properties
)
PROPERTIES = (
    OWN
    | OWN.map(lambda own: to_properties(EARLIER, own))
    | OWN.map(lambda own: own + b"\x03\x00\x01t")
    | st.sampled_from([b"\xff", b"\x26\x00\x05dlq-x", b"\x26\x00\x04dlq-\x00\x01"])
)
BATCHES = st.lists(
    st.tuples(
        st.sampled_from([b"", b"k", b"key"]),
        st.sampled_from([b"", b"v", b"value" * 9]),
        st.sampled_from([b"", b"a/b", b"$queue/q"]),
        PROPERTIES,
        st.sampled_from([b"", b"\x91\x00\x00"]),
    ),
    min_size=1,
    max_size=6,
)
NUMBERS = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 3))


def said(kernel: ModuleType, facts: DeadLetter, retries: int) -> object:
    """By the kernel's own class: the pure one takes no compiled one."""
    module: Any = deadletter
    before, module.Said = module.Said, kernel.Said
    try:
        return deadletter.said(facts, "q@1:0:", retries, SHIFT)
    finally:
        module.Said = before


def stored(columns: Columns, first: int) -> Batch:
    data = encode(columns)
    seal(data, first, 0, 7)
    return Batch.parse(data)


def rows_of(made: Columns) -> list[Row]:
    return [row._replace(offset=0, timestamp=0) for row in stored(made, 0)]


def columns(gathered: Any) -> Columns:
    count, places = gathered.trimmed(), gathered.places
    source = bytes(gathered.whole()) + b"".join(gathered.topics)
    starts, at = array("i"), len(source) - sum(map(len, gathered.topics))
    for topic in gathered.topics:
        starts.append(at)
        at += len(topic)
    ends = array("i", [*starts[1:], at])
    words = [places[word::5] for word in range(5)]
    spans = [Spans(first, stop) for first, stop in pairwise(words)]
    index = gathered.topic_index
    return Columns(count, source, spans[3], spans[0], spans[1], spans[2], index, Spans(starts, ends))


@settings(deadline=None)
@given(st.lists(BATCHES, min_size=1, max_size=3), st.data())
def test_letters_in_bulk_are_letters_one_by_one(batches: list[list[tuple[bytes, ...]]], data: st.DataObject) -> None:
    reason = data.draw(st.sampled_from([Reason.MAX_RETRIES, Reason.REJECTED, Reason.EXPIRED]))
    detail, retries = data.draw(st.sampled_from(["", "why"])), 10 if reason is Reason.MAX_RETRIES else -1
    for kernel in both("letters"):
        facts = DeadLetter(MessageId("q", 1, 0, 0), GroupName("g"), reason, 99, detail)
        gathered = kernel.Gathered(said(kernel, facts, retries), *NEVER_TOO_MUCH)
        expected: list[Row] = []
        timed_out = 0
        for number, some in enumerate(batches):
            fields = list(zip(*some, strict=True))
            batch = stored(
                Columns.of(list(fields[1]), keys=fields[0], topics=fields[2], properties=fields[3], native=fields[4]),
                100 * number,
            )
            picked = [row for row in range(len(some)) if data.draw(st.booleans(), label="picked")]
            counts = [data.draw(NUMBERS) for _ in picked]
            columns_of = [array("i", [each[word] for each in counts]) for word in range(2)]
            firsts = array("q", [each[2] for each in counts])
            offsets = array("q", [100 * number + row for row in picked])
            taken = gathered.add(
                batch.body, batch.layout, array("i", picked), 0, len(picked), offsets, *columns_of, firsts
            )
            assert taken == len(picked)
            for row, offset, (deliveries, failures, first) in zip(picked, offsets, counts, strict=True):
                is_late = reason is Reason.MAX_RETRIES and failures <= retries
                timed_out += is_late
                deliveries = max(deliveries - (reason is Reason.EXPIRED), 0)
                mine = DeadLetter(
                    MessageId("q", 1, 0, offset),
                    GroupName("g"),
                    Reason.TOTAL_TIMEOUT if is_late else reason,
                    99,
                    detail,
                    deliveries,
                    failures,
                    first + SHIFT if first else 0,
                )
                expected.append(dead_letter(list(batch)[row], mine))
        assert gathered.timed_out == timed_out
        if expected:
            assert rows_of(columns(gathered)) == rows_of(columns_for_move(expected))


@BUILDS
def test_a_letter_that_would_be_too_long_says_less(kernel: ModuleType) -> None:
    facts = DeadLetter(MessageId("q", 1, 0, 0), GroupName("g"), Reason.REJECTED, 99, "d" * 500)
    batch = stored(Columns.of([b"v" * 100], properties=[to_properties(EARLIER, b"\x01\x00")]), 4)
    whole = len(to_properties(facts, b"\x01\x00")) + 100
    one = array("i", [0])
    for bound, kept in ((whole, "d" * 500), (whole - 1, ""), (120, None)):
        gathered = kernel.Gathered(said(kernel, facts, -1), bound, 1 << 20, 10)
        gathered.add(batch.body, batch.layout, one, 0, 1, array("q", [4]), one, one, array("q", [0]))
        [row] = rows_of(columns(gathered))
        found = deadletter.from_properties(row.properties or b"")
        assert found is not None
        assert found.detail == ("no" if kept is None else kept)


@BUILDS
def test_a_frame_takes_so_many_bytes_and_rows_and_one_at_least(kernel: ModuleType) -> None:
    facts = DeadLetter(MessageId("q", 1, 0, 0), GroupName("g"), Reason.REJECTED, 99)
    batch = stored(Columns.of([b"v" * 1000] * 5), 0)
    rows, offsets = array("i", range(5)), array("q", range(5))
    for most_bytes, most_rows, taken in ((10, 10, 1), (1 << 20, 3, 3), (4500, 10, 3), (1 << 20, 10, 5)):
        gathered = kernel.Gathered(said(kernel, facts, -1), 1 << 20, most_bytes, most_rows)
        assert gathered.add(batch.body, batch.layout, rows, 0, 5, offsets, rows, rows, offsets) == taken
        assert gathered.trimmed() == taken


@BUILDS
def test_rows_are_picked_by_their_offsets(kernel: ModuleType) -> None:
    offsets, wanted, out = array("q", [5, 6, 9]), array("q", [1, 5, 7, 9, 12]), array("i", bytes(20))
    assert kernel.pick(offsets, wanted, 1, 10, out) == 3
    assert list(out[:3]) == [0, -1, 2]
    assert set(FACTS) >= {"dlq-detail"}
