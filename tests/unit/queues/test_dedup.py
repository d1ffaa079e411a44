from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import FencedProducer, InvalidArgument, OutOfOrder
from penstock.queues.dedup import (
    FORGOTTEN_AFTER_MS,
    FRESH,
    UNKNOWN,
    Call,
    Duplicate,
    Placement,
    Producers,
    decode,
    encode,
)

P = b"producer"


def one_partition(base_sequence: int, count: int, base_offset: int, epoch: int = 0, producer: bytes = P) -> Call:
    return Call(producer, epoch, base_sequence, count, (Placement(0, base_offset, count),))


def taken(*calls: Call, now_ms: int = 0, max_bytes: int = 64 << 20) -> Producers:
    producers = Producers(max_bytes)
    for call in calls:
        producers.apply(call, now_ms)
    return producers


def duplicate(found: object) -> Duplicate:
    assert isinstance(found, Duplicate)
    return found


def offsets(found: object) -> list[tuple[int, int]]:
    return list(zip(*duplicate(found).offsets(), strict=True))


def test_a_producer_may_begin_anywhere_and_must_then_follow() -> None:
    producers = Producers()
    assert producers.check(P, 0, 100, 5) is FRESH
    producers.apply(one_partition(100, 5, 7), 0)
    assert producers.check(P, 0, 105, 1) is FRESH
    with pytest.raises(OutOfOrder) as refused:
        producers.check(P, 0, 106, 1)
    assert (refused.value.producer, refused.value.expected, refused.value.got) == ("producer", 105, 106)


def test_a_duplicate_gets_the_first_ones_offsets() -> None:
    producers = taken(one_partition(0, 3, 40), one_partition(3, 2, 90))
    assert offsets(producers.check(P, 0, 0, 3)) == [(0, 40), (0, 41), (0, 42)]
    assert offsets(producers.check(P, 0, 4, 1)) == [(0, 91)]
    assert offsets(producers.check(P, 0, 2, 2)) == [(0, 42), (0, 90)]


def test_a_call_that_overlaps_is_duplicate_in_its_first_rows_only() -> None:
    producers = taken(one_partition(0, 3, 40))
    found = duplicate(producers.check(P, 0, 1, 10))
    assert found.rows == 2
    assert offsets(found) == [(0, 41), (0, 42)]


def test_a_duplicate_names_the_very_call_so_that_its_commit_can_be_awaited() -> None:
    first, second = one_partition(0, 3, 40), one_partition(3, 2, 90)
    producers = taken(first, second)
    assert duplicate(producers.check(P, 0, 0, 3)).call is first
    assert duplicate(producers.check(P, 0, 2, 9)).call is second
    assert duplicate(producers.check(P, 0, 2, 9)).calls == (first, second)
    assert duplicate(producers.check(P, 0, 3, 9)).calls == (second,)


def test_a_duplicate_of_what_came_before_the_first_call_has_no_offsets_but_a_call_to_await() -> None:
    first = one_partition(100, 2, 40)
    found = duplicate(taken(first).check(P, 0, 98, 3))
    assert offsets(found) == [(UNKNOWN, UNKNOWN), (UNKNOWN, UNKNOWN), (0, 40)]
    assert duplicate(taken(first).check(P, 0, 5, 1)).call is first


def test_a_higher_epoch_begins_anew_and_fences_the_lower() -> None:
    producers = taken(one_partition(0, 3, 40))
    assert producers.check(P, 1, 77, 1) is FRESH
    producers.apply(one_partition(77, 1, 50, epoch=1), 0)
    with pytest.raises(FencedProducer) as refused:
        producers.check(P, 0, 3, 1)
    assert (refused.value.producer, refused.value.epoch) == ("producer", 0)
    assert offsets(producers.check(P, 1, 0, 1)) == [(UNKNOWN, UNKNOWN)]


def test_looking_with_a_higher_epoch_fences_nobody() -> None:
    producers = taken(one_partition(0, 3, 40))
    producers.check(P, 1, 0, 1)
    assert producers.check(P, 0, 3, 1) is FRESH


def test_producers_do_not_touch_each_other() -> None:
    producers = taken(one_partition(0, 3, 40), one_partition(9, 1, 43, producer=b"other"))
    assert producers.check(P, 0, 3, 1) is FRESH
    assert producers.check(b"other", 0, 10, 1) is FRESH


def test_rows_scattered_over_partitions_find_their_offsets() -> None:
    partitions = array("i", [2, 5, 2, 70_000, 5, 2])
    placements = [Placement(2, 100, 3), Placement(5, 200, 2), Placement(70_000, 300, 1)]
    producers = taken(Call.scattered(P, 0, 10, placements, partitions), one_partition(16, 1, 9))
    assert offsets(producers.check(P, 0, 10, 6)) == [
        (2, 100),
        (5, 200),
        (2, 101),
        (70_000, 300),
        (5, 201),
        (2, 102),
    ]
    assert offsets(producers.check(P, 0, 14, 4)) == [(5, 201), (2, 102), (0, 9)]


def test_a_scattered_call_that_met_one_partition_needs_no_order() -> None:
    call = Call.scattered(P, 0, 0, [Placement(4, 8, 3)], array("i", [4, 4, 4]))
    assert call == Call(P, 0, 0, 3, (Placement(4, 8, 3),))


def test_the_last_five_calls_are_remembered_however_large() -> None:
    producers = taken(*[one_partition(10_000 * i, 10_000, 20_000 * i) for i in range(7)])
    assert offsets(producers.check(P, 0, 19_999, 2)) == [(UNKNOWN, UNKNOWN), (0, 40_000)]
    assert len(producers.dump()) == 5


def test_two_thousand_sequences_are_remembered_however_small_the_calls() -> None:
    producers = taken(*[one_partition(i, 1, 3 * i) for i in range(5_000)])
    assert offsets(producers.check(P, 0, 2_999, 2)) == [(UNKNOWN, UNKNOWN), (0, 9_000)]
    assert len(producers.dump()) == 2_000


def test_a_producer_is_forgotten_a_day_after_its_last_call() -> None:
    producers = taken(one_partition(0, 1, 0))
    producers.apply(one_partition(1, 1, 1), 1_000)
    assert producers.expire(1_000 + FORGOTTEN_AFTER_MS - 1) == 0
    assert producers.expire(1_000 + FORGOTTEN_AFTER_MS) == 1
    assert (len(producers), producers.bytes) == (0, 0)
    assert producers.check(P, 0, 55, 1) is FRESH


def test_a_duplicate_does_not_lengthen_the_day() -> None:
    producers = taken(one_partition(0, 1, 0))
    producers.check(P, 0, 0, 1)
    assert producers.expire(FORGOTTEN_AFTER_MS) == 1


def test_a_clock_set_back_keeps_producers_for_a_day_of_the_new_time() -> None:
    ids = [b"%d" % i for i in range(3)]
    producers = taken(*[one_partition(0, 1, 0, producer=name) for name in ids], now_ms=10**15)
    producers.apply(one_partition(0, 1, 0, producer=b"later"), 500)
    assert producers.expire(1_000) == 0
    assert producers.expire(1_000 + FORGOTTEN_AFTER_MS) == 4


def test_replay_of_a_record_accepted_after_its_producer_was_forgotten_begins_anew() -> None:
    replayed = taken(one_partition(0, 9, 0), one_partition(0, 2, 70))
    assert replayed.check(P, 0, 2, 1) is FRESH
    assert offsets(replayed.check(P, 0, 0, 2)) == [(0, 70), (0, 71)]


def test_replaying_records_twice_changes_nothing() -> None:
    calls = [one_partition(i, 1, 3 * i) for i in range(20)]
    once, twice = taken(*calls), taken(*calls, *calls[-7:])
    assert twice.dump() == once.dump()
    assert twice.bytes == once.bytes


def test_a_dump_makes_an_equal_state() -> None:
    producers = taken(*[one_partition(0, 1, i, producer=b"%d" % i) for i in range(3)])
    producers.apply(one_partition(1, 4, 70, producer=b"0"), 900)
    restored = Producers()
    for call, ms in producers.dump():
        restored.apply(decode(encode(call)), ms)
    assert restored.dump() == producers.dump()
    assert (restored.bytes, len(restored)) == (producers.bytes, len(producers))
    assert restored.expire(FORGOTTEN_AFTER_MS) == producers.expire(FORGOTTEN_AFTER_MS)


def test_over_the_memory_bound_the_silent_lose_old_offsets_first() -> None:
    names = [b"a", b"b"]
    unbounded = taken(*[one_partition(i, 1, i, producer=name) for name in names for i in range(10)])
    producers = taken(
        *[one_partition(i, 1, i, producer=name) for name in names for i in range(10)], max_bytes=unbounded.bytes - 1
    )
    assert offsets(producers.check(b"a", 0, 8, 2)) == [(UNKNOWN, UNKNOWN), (0, 9)]
    assert offsets(producers.check(b"b", 0, 0, 1)) == [(0, 0)]
    assert producers.check(b"a", 0, 10, 1) is FRESH
    assert producers.bytes <= producers.max_bytes


def test_over_the_memory_bound_the_longest_silent_are_forgotten_last_of_all() -> None:
    producers = Producers(max_bytes=100_000)
    for i in range(1_000):
        producers.apply(one_partition(5, 1, i, producer=b"%d" % i), i)
    assert producers.bytes <= 100_000
    assert 100 < len(producers) < 1_000
    assert producers.check(b"0", 0, 0, 1) is FRESH
    assert duplicate(producers.check(b"999", 0, 5, 1)).rows == 1


def test_the_last_call_of_a_lone_producer_is_never_dropped() -> None:
    producers = taken(one_partition(0, 1, 3), one_partition(1, 1, 4), max_bytes=0)
    assert offsets(producers.check(P, 0, 0, 2)) == [(UNKNOWN, UNKNOWN), (0, 4)]


@pytest.mark.parametrize(
    ("producer", "epoch", "base_sequence", "count"),
    [
        (b"", 0, 0, 1),
        (b"x" * 256, 0, 0, 1),
        (P, -1, 0, 1),
        (P, 2**63, 0, 1),
        (P, 0, -1, 1),
        (P, 0, 0, 0),
        (P, 0, 0, 2**31),
        (P, 0, 2**63 - 1, 1),
    ],
)
def test_numbers_out_of_range_are_refused(producer: bytes, epoch: int, base_sequence: int, count: int) -> None:
    with pytest.raises(InvalidArgument):
        Producers().check(producer, epoch, base_sequence, count)


def test_an_id_that_is_no_text_can_still_be_reported() -> None:
    with pytest.raises(OutOfOrder) as refused:
        taken(one_partition(0, 1, 0, producer=b"\xff\x00")).check(b"\xff\x00", 0, 9, 1)
    assert refused.value.producer == "\\xff\x00"


@st.composite
def calls(draw: st.DrawFn) -> Call:
    partitions = draw(st.lists(st.sampled_from([0, 1, 9, 65_536, 2**31 - 1]), min_size=1, max_size=12))
    bases = st.integers(0, 2**62)
    placements = [Placement(p, draw(bases), partitions.count(p)) for p in dict.fromkeys(partitions)]
    producer, epoch = draw(st.binary(min_size=1, max_size=255)), draw(st.integers(0, 2**63 - 1))
    return Call.scattered(producer, epoch, draw(bases), placements, partitions)


@given(calls())
@settings(max_examples=100, deadline=None)
def test_a_call_survives_encoding(call: Call) -> None:
    assert decode(encode(call)) == call
    assert decode(memoryview(encode(call))) == call


def test_a_call_over_more_than_256_partitions_survives_encoding() -> None:
    partitions = [(i * 7) % 600 for i in range(1_200)]
    call = Call.scattered(P, 0, 0, [Placement(p, 1_000 * p, 2) for p in range(600)], partitions)
    assert decode(encode(call)) == call
    found = offsets(taken(call).check(P, 0, 599, 2))
    assert found == [(partitions[599], 1_000 * partitions[599]), (0, 1)]


def test_a_record_costs_few_bytes() -> None:
    assert len(encode(one_partition(0, 1, 0, producer=b""))) == 39


GOOD = Call.scattered(P, 1, 2, [Placement(2, 100, 2), Placement(5, 200, 1)], [2, 5, 2])


@pytest.mark.parametrize(
    "call",
    [
        replace(GOOD, count=0),
        replace(GOOD, count=4),
        replace(GOOD, epoch=-1),
        replace(GOOD, base_sequence=-1),
        replace(GOOD, base_sequence=2**63 - 2),
        replace(GOOD, producer=b""),
        replace(GOOD, placements=()),
        replace(GOOD, placements=GOOD.placements[:1]),
        replace(GOOD, placements=(), order=b""),
        replace(GOOD, placements=(Placement(2, 100, 2), Placement(2, 200, 1))),
        replace(GOOD, placements=(Placement(2, 100, 1), Placement(5, 200, 2))),
        replace(GOOD, placements=(Placement(2, -1, 2), Placement(5, 200, 1))),
        replace(GOOD, placements=(Placement(2, 2**63 - 1, 2), Placement(5, 200, 1))),
        replace(GOOD, placements=(Placement(-2, 100, 2), Placement(5, 200, 1))),
        replace(GOOD, order=b"\x00\x02\x00"),
        replace(GOOD, order=b"\x00\x01"),
        replace(GOOD, order=b"\x00\x01\x00\x00"),
    ],
)
def test_a_record_that_makes_no_sense_is_refused(call: Call) -> None:
    with pytest.raises(InvalidArgument):
        decode(encode(call))


def test_a_record_cut_anywhere_is_refused() -> None:
    data = encode(GOOD)
    for size in range(len(data)):
        with pytest.raises(InvalidArgument):
            decode(data[:size])


@given(st.binary(max_size=90))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_call_or_refused(data: bytes) -> None:
    try:
        call = decode(data)
    except InvalidArgument:
        return
    assert encode(call) == data
