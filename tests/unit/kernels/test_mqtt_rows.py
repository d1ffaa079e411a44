from __future__ import annotations

from array import array
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds
from tests.support.mqtt_wire import Limits as WireLimits
from tests.support.mqtt_wire import publish, read_properties, short, string, user_property

from penstock.core.errors import InvalidArgument
from penstock.kernels import mqtt_columns as names
from penstock.kernels.mqtt_scan import Scanner

BUILDS = pytest.mark.parametrize("mqtt_rows", builds("mqtt_rows"))
TOPICS = [b"", b"a", b"b", b"a/b", b"seven/7", b"eight/88", b"eight/89", b"seventeen/letters", b"seventeen/letterz"]


def ints(count: int) -> array[int]:
    return array("i", [0]) * count


def laid_out(parts: list[bytes]) -> tuple[bytes, array[int], array[int]]:
    """The parts one behind the other, with something in front: their starts and ends."""
    starts, ends, at = array("i"), array("i"), 3
    for part in parts:
        starts.append(at)
        at += len(part)
        ends.append(at)
    return b"xyz" + b"".join(parts), starts, ends


def grouped(
    mqtt_rows: ModuleType, rows: list[tuple[bytes, int]], seed: int = 0, scratch: int = 0
) -> tuple[list[int], list[int], list[int]]:
    data, starts, ends = laid_out([topic for topic, _ in rows])
    aliases, alias_numbers = array("i", [alias for _, alias in rows]), array("i", [-1]) * 8
    table, numbers, firsts = array("i", [scratch]) * (6 * len(rows)), ints(len(rows)), ints(len(rows))
    count = mqtt_rows.group_topics(data, starts, ends, aliases, alias_numbers, seed, table, numbers, firsts)
    return list(numbers), list(firsts[:count]), list(alias_numbers)


def naive_groups(rows: list[tuple[bytes, int]]) -> tuple[list[int], list[int], list[int]]:
    known: dict[bytes, int] = {}
    aliases = [-1] * 8
    numbers: list[int] = []
    firsts: list[int] = []
    for row, (topic, alias) in enumerate(rows):
        if not topic and alias:
            number = aliases[alias]
            if number < 0:
                number = len(firsts)
        else:
            number = known.setdefault(topic, len(firsts))
        if number == len(firsts):
            firsts.append(row)
        if alias:
            aliases[alias] = number
        numbers.append(number)
    return numbers, firsts, aliases


@BUILDS
def test_an_alias_from_before_has_no_place_in_the_table(mqtt_rows: ModuleType) -> None:
    rows = [(b"a", 0), (b"b", 0), (b"", 1), (b"", 0)]
    assert grouped(mqtt_rows, rows, seed=1, scratch=2) == naive_groups(rows)


@BUILDS
@given(
    rows=st.lists(st.tuples(st.sampled_from(TOPICS), st.sampled_from([0, 0, 0, 1, 2, 7])), max_size=40),
    seed=st.integers(0, 2**64 - 1),
    scratch=st.sampled_from([0, -1, 1, 2, 3, 2**31 - 1]),
)
@settings(max_examples=150, deadline=None)
def test_rows_of_one_topic_get_one_number_and_aliases_stand_for_the_last_topic_they_came_with(
    mqtt_rows: ModuleType, rows: list[tuple[bytes, int]], seed: int, scratch: int
) -> None:
    assert grouped(mqtt_rows, rows, seed, scratch) == naive_groups(rows)


@BUILDS
def test_a_table_used_before_gives_the_same_groups(mqtt_rows: ModuleType) -> None:
    table, numbers, firsts = ints(6 * 500), ints(500), ints(500)
    for base in (0, 100, 7):
        topics = [b"t/%d" % (base + i * i % 211) for i in range(500)]
        data, starts, ends = laid_out(topics)
        count = mqtt_rows.group_topics(data, starts, ends, None, None, 9, table, numbers, firsts)
        assert count == len(set(topics))
        assert [topics[firsts[number]] for number in numbers] == topics


@BUILDS
def test_topics_outside_the_buffer_and_too_little_room_are_refused(mqtt_rows: ModuleType) -> None:
    for start, end in ((-1, 2), (2, 1), (0, 9)):
        with pytest.raises(InvalidArgument):
            mqtt_rows.group_topics(
                b"abc", array("i", [start]), array("i", [end]), None, None, 0, ints(6), ints(1), ints(1)
            )
    with pytest.raises(InvalidArgument):
        mqtt_rows.group_topics(b"abc", ints(3), ints(3), None, None, 0, ints(6), ints(3), ints(3))
    with pytest.raises(IndexError):
        mqtt_rows.group_topics(b"a", ints(1), ints(1), array("i", [9]), ints(2), 0, ints(6), ints(1), ints(1))
    assert mqtt_rows.group_topics(b"", ints(0), ints(0), None, None, 0, ints(0), ints(0), ints(0)) == 0


@BUILDS
@given(heads=st.lists(st.integers(0, 255), max_size=30), mask=st.sampled_from([0xF0, 0xF6, 0xFF]))
@settings(max_examples=50, deadline=None)
def test_rows_are_picked_by_kind_and_flags(mqtt_rows: ModuleType, heads: list[int], mask: int) -> None:
    out = ints(len(heads))
    count = mqtt_rows.pick_rows(array("i", heads), mask, 0x32 & mask, out)
    assert list(out[:count]) == [row for row, head in enumerate(heads) if head & mask == 0x32 & mask]


def scan(data: bytes | bytearray) -> Scanner:
    scanner = Scanner(100)
    scanner.scan(data, 0, len(data), 5, 1 << 20, 100, 2, True)
    assert scanner.why == names.NEEDS_BYTES
    return scanner


EXPIRY = st.integers(0, 2**32 - 1).map(lambda seconds: b"\x02" + seconds.to_bytes(4, "big"))
ALIAS = st.integers(1, 100).map(lambda alias: b"\x23" + short(alias))
USER = st.tuples(st.sampled_from([b"", b"key", b"kez", b"partition-key"]), st.binary(max_size=0) | st.just(b"v1")).map(
    lambda pair: user_property(*pair)
)
OTHER = st.sampled_from([b"\x01\x01", b"\x03" + string(b"text/plain"), b"\x09" + string(b"\x26\x00"), b"\x08\x00\x01r"])


@st.composite
def properties(draw: st.DrawFn) -> list[bytes]:
    once = [*draw(st.lists(EXPIRY, max_size=1)), *draw(st.lists(ALIAS, max_size=1))]
    once += draw(st.lists(OTHER, unique_by=lambda prop: prop[0], max_size=3))
    return draw(st.permutations(once + draw(st.lists(USER, max_size=3))))


@BUILDS
@given(rows=st.lists(properties(), max_size=8))
@settings(max_examples=100, deadline=None)
def test_what_is_left_after_alias_and_expiry_are_dropped_is_what_was_between_them(
    mqtt_rows: ModuleType, rows: list[list[bytes]]
) -> None:
    data = bytearray(b"".join(publish(5, b"t", b"payload", properties=b"".join(row)) for row in rows))
    before, scanner = bytes(data), scan(data)
    present, starts = scanner.column(names.PRESENT), scanner.column(names.PROPERTIES_START)
    first, ends = list(starts), scanner.column(names.PROPERTIES_END)
    changed = mqtt_rows.drop_hop_by_hop(
        data, present, scanner.column(names.EXPIRY_AT), scanner.column(names.ALIAS_AT), starts
    )
    kept = [b"".join(prop for prop in row if prop[0] not in (0x02, 0x23)) for row in rows]
    assert [bytes(data[start:end]) for start, end in zip(starts, ends, strict=True)] == kept
    assert changed == sum(any(prop[0] in (0x02, 0x23) for prop in row) for row in rows)
    limits = WireLimits(alias=100)
    for start, end in zip(first, ends, strict=True):
        assert read_properties(bytes(data[start:end]), limits) == read_properties(before[start:end], limits)
    outside = bytes(
        byte for at, byte in enumerate(data) if not any(a <= at < b for a, b in zip(first, ends, strict=True))
    )
    assert outside == bytes(
        byte for at, byte in enumerate(before) if not any(a <= at < b for a, b in zip(first, ends, strict=True))
    )


@BUILDS
def test_expiry_times_are_absolute_and_zero_for_never(mqtt_rows: ModuleType) -> None:
    longest = b"\x02\xff\xff\xff\xff"
    data = b"".join(publish(5, b"t", b"", properties=part) for part in (b"", b"\x02\0\0\0\x3c", b"\1\0", longest))
    scanner, out = scan(data), array("q", [7]) * 4
    present, expiry_at = scanner.column(names.PRESENT), scanner.column(names.EXPIRY_AT)
    assert mqtt_rows.expiry_times(data, present, expiry_at, 1_700_000_000_000, out) == 2
    assert list(out) == [0, 1_700_000_060_000, 0, 1_700_000_000_000 + 1000 * (2**32 - 1)]


@BUILDS
@given(rows=st.lists(properties(), max_size=8), name=st.sampled_from([b"key", b"partition-key", b"", b"absent"]))
@settings(max_examples=100, deadline=None)
def test_the_first_user_property_of_a_name_is_found(
    mqtt_rows: ModuleType, rows: list[list[bytes]], name: bytes
) -> None:
    data = b"".join(publish(5, b"t", b"payload", properties=b"".join(row)) for row in rows)
    scanner = scan(data)
    starts, ends = ints(len(rows)), ints(len(rows))
    count = mqtt_rows.find_user_property(
        data, scanner.column(names.PROPERTIES_START), scanner.column(names.PROPERTIES_END), name, starts, ends
    )
    found = [data[start:end] if start else None for start, end in zip(starts, ends, strict=True)]
    wanted = b"\x26" + string(name)
    expected = [next((prop[len(wanted) + 2 :] for prop in row if prop.startswith(wanted)), None) for row in rows]
    assert found == expected
    assert count == sum(value is not None for value in expected)
