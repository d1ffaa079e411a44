from __future__ import annotations

from array import array
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

from penstock.codecs.amqp091.errors import AmqpError
from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.wire import Reader, field_bytes, shortstr_bytes, table_bytes
from penstock.core.errors import InvalidArgument

BUILDS = pytest.mark.parametrize("amqp_tables", builds("amqp_tables"))
RANGES = {
    "b": (-(2**7), 2**7 - 1),
    "B": (0, 2**8 - 1),
    "s": (-(2**15), 2**15 - 1),
    "u": (0, 2**16 - 1),
    "I": (-(2**31), 2**31 - 1),
    "i": (0, 2**32 - 1),
    "l": (-(2**63), 2**63 - 1),
    "L": (-(2**63), 2**63 - 1),
    "T": (0, 2**64 - 1),
}
names = st.sampled_from(["", "a", "b", "x-delay", "größe", "k" * 255])
numbers = st.sampled_from(sorted(RANGES)).flatmap(
    lambda kind: st.builds(Field, st.just(kind), st.integers(*RANGES[kind]))
)
leaves = st.one_of(
    numbers,
    st.builds(Field, st.just("t"), st.booleans()),
    st.builds(Field, st.just("S"), st.text(max_size=9)),
    st.builds(Field, st.just("x"), st.binary(max_size=9)),
    st.builds(Field, st.sampled_from("fd"), st.sampled_from([0.0, -1.5, 2.0**20])),
    st.just(Field("V", None)),
)
fields = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Field, st.just("A"), st.lists(inner, max_size=3).map(tuple)),
        st.builds(Field, st.just("F"), st.dictionaries(names, inner, max_size=3)),
    ),
    max_leaves=6,
)
pairs = st.lists(st.tuples(names, fields), max_size=5)


def written(some: list[tuple[str, Field]]) -> bytes:
    """Without a length, and with names as often as they come."""
    return b"".join(shortstr_bytes(name, "") + field_bytes(field, "") for name, field in some)


def is_table(data: bytes) -> bool:
    try:
        Reader(len(data).to_bytes(4, "big") + data).table("")
    except AmqpError:
        return False
    return True


@BUILDS
@given(some=pairs, place=st.integers(0, 10_000), byte=st.sampled_from([0, 1, 3, 0x41, 0x46, 0x53, 0x5A, 0x7F, 0xFF]))
@settings(max_examples=200, deadline=None)
def test_a_table_is_what_the_codec_takes_for_one(
    amqp_tables: ModuleType, some: list[tuple[str, Field]], place: int, byte: int
) -> None:
    data = written(some)
    assert amqp_tables.table_fault(b"??" + data + b"?", 2, 2 + len(data)) == 0
    mutant = bytearray(data)
    if mutant:
        mutant[place % len(mutant)] = byte
        assert amqp_tables.table_fault(mutant, 0, len(mutant)) == (not is_table(bytes(mutant)))
        for size in range(0, len(data), 7):
            assert amqp_tables.table_fault(data, 0, size) == (not is_table(data[:size]))


def found(amqp_tables: ModuleType, tables: list[bytes], name: str) -> list[tuple[int, bytes]]:
    """Type and bytes of the value of each."""
    data, starts, stops = b"", array("i"), array("i")
    for table in tables:
        starts.append(len(data) + 1)
        data += b"?" + table
        stops.append(len(data))
    out = [array("i", [7]) * len(tables) for _ in range(3)]
    count = amqp_tables.find(data, starts, stops, name.encode(), *out)
    assert count == sum(kind != 0 for kind in out[0])
    numbers = array("q", [99]) * len(tables)
    are = amqp_tables.integers(data, out[0], out[1], numbers)
    assert are == sum(chr(kind) in RANGES or kind == 0x74 for kind in out[0])
    for kind, start, stop, number in zip(*out, numbers, strict=True):
        if kind == 0x74 or chr(kind) in RANGES:
            is_signed = chr(kind) in "bsIlLT"
            assert number == int.from_bytes(data[start:stop], "big", signed=is_signed)
        else:
            assert number == 99
    return [(kind, data[a:b]) for kind, a, b in zip(*out, strict=True)]


@BUILDS
@given(some=st.lists(pairs, max_size=4), name=names)
@settings(max_examples=150, deadline=None)
def test_the_first_field_of_a_name_is_found_with_its_type_and_value(
    amqp_tables: ModuleType, some: list[list[tuple[str, Field]]], name: str
) -> None:
    expected = []
    for table in some:
        first = next((field for known, field in table if known == name), None)
        value = b"" if first is None else field_bytes(first, "")[1:]
        if first is not None and first.kind in "SxAF":
            value = value[4:]
        expected.append((0 if first is None else ord(first.kind), value))
    assert found(amqp_tables, [written(table) for table in some], name) == expected


@BUILDS
def test_numbers_in_decimal_digits(amqp_tables: ModuleType) -> None:
    texts = [b"0", b"60000", b"0012", b"9" * 18, b"9" * 19, b"", b"-1", b"+1", b"1 ", b"1.5", "٣".encode(), b":", b"/"]
    data, places = b"", array("i", [-1])
    for text in texts:
        places.append(len(data))
        data += bytes([len(text)]) + text
    out = array("q", [5]) * len(places)
    assert amqp_tables.decimal_texts(data, places, out) == 9
    assert list(out) == [-1, 0, 60_000, 12, 10**18 - 1, *[-2] * 9]


@BUILDS
def test_spans_outside_the_buffer_are_refused(amqp_tables: ModuleType) -> None:
    out = [array("i", [0]) for _ in range(3)]
    for start, stop in ((-1, 1), (2, 1), (0, 5)):
        with pytest.raises(InvalidArgument):
            amqp_tables.table_fault(bytes(4), start, stop)
        with pytest.raises(InvalidArgument):
            amqp_tables.find(bytes(4), array("i", [start]), array("i", [stop]), b"n", *out)
    with pytest.raises(InvalidArgument):
        amqp_tables.find(bytes(4), array("i", [0]), array("i"), b"n", *out)
    with pytest.raises(IndexError):
        amqp_tables.decimal_texts(b"\x05123", array("i", [0]), array("q", [0]))


@BUILDS
def test_a_table_that_was_not_checked_has_no_fields_behind_its_fault(amqp_tables: ModuleType) -> None:
    table = table_bytes({"a": Field("I", 1), "b": Field("S", "text")}, "")[4:]
    for size in range(len(table)):
        kinds = [kind for kind, _ in found(amqp_tables, [table[:size]], "b")]
        assert kinds == [0]
