from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.codecs.amqp091.errors import AmqpError, Reply
from penstock.codecs.amqp091.kinds import MAX_TABLE_BYTES, MAX_TABLE_DEPTH, Field, Table
from penstock.codecs.amqp091.wire import Reader, field_of, plain, table_bytes, table_of
from penstock.core.errors import InvalidArgument, TooLarge

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
numbers = st.sampled_from(sorted(RANGES)).flatmap(
    lambda kind: st.builds(Field, st.just(kind), st.integers(*RANGES[kind]))
)
decimals = st.builds(
    lambda scale, unscaled: Decimal(unscaled).scaleb(-scale), st.integers(0, 28), st.integers(0, 2**32 - 1)
)
names = st.text(max_size=9) | st.binary(max_size=9).map(lambda data: data.decode("utf-8", "surrogateescape"))
leaves = st.one_of(
    numbers,
    st.builds(Field, st.just("t"), st.booleans()),
    st.builds(Field, st.just("S"), names),
    st.builds(Field, st.just("x"), st.binary(max_size=9)),
    st.builds(Field, st.just("D"), decimals),
    st.builds(Field, st.just("d"), st.floats(allow_nan=False)),
    st.builds(Field, st.just("f"), st.floats(width=32, allow_nan=False)),
    st.just(Field("V", None)),
)
fields = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Field, st.just("A"), st.lists(inner, max_size=3).map(tuple)),
        st.builds(Field, st.just("F"), st.dictionaries(names, inner, max_size=3)),
    ),
    max_leaves=8,
)
tables = st.dictionaries(names, fields, max_size=4)


def read(data: bytes) -> Table:
    reader = Reader(data)
    table = reader.table("a table")
    reader.finish("a table")
    return table


@given(table=tables)
@settings(max_examples=200, deadline=None)
def test_tables_of_all_types_come_back_as_they_were(table: Table) -> None:
    assert read(table_bytes(table, "a table")) == table


@given(table=tables, cut=st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_a_cut_table_is_a_syntax_error(table: Table, cut: int) -> None:
    data = table_bytes(table, "a table")
    with pytest.raises(AmqpError) as refused:
        read(data[: cut % len(data)])
    assert refused.value.fault.reply is Reply.SYNTAX_ERROR


def test_of_two_fields_of_one_name_the_first_counts() -> None:
    assert read(b"\0\0\0\x08\1kB\1\1kB\2") == {"k": Field("B", 1)}


def nested(depth: int) -> bytes:
    data = b"\0\0\0\0"
    for _ in range(depth - 1):
        data = (len(data) + 3).to_bytes(4, "big") + b"\1kF" + data
    return data


def test_tables_deeper_or_longer_than_the_limits_are_refused() -> None:
    assert read(nested(MAX_TABLE_DEPTH))
    long = b"\1kx" + (MAX_TABLE_BYTES - 7).to_bytes(4, "big") + bytes(MAX_TABLE_BYTES - 7)
    assert read(len(long).to_bytes(4, "big") + long)
    for data in (nested(MAX_TABLE_DEPTH + 1), nested(3000), (MAX_TABLE_BYTES + 1).to_bytes(4, "big"), b"\xff" * 4):
        with pytest.raises(AmqpError):
            read(data)


@pytest.mark.parametrize(
    "value", [True, 0, -1, 2**31, -(2**63), 1.5, "text", b"bytes", None, Decimal("0.01"), [1, "a"]]
)
def test_plain_values_get_a_type_and_come_back(value: object) -> None:
    table = table_of({"k": value, "inner": {"k": value}})
    assert plain(Field("F", read(table_bytes(table, "")))) == {"k": value, "inner": {"k": value}}


def test_small_numbers_are_int32_and_others_int64() -> None:
    assert [field_of(number).kind for number in (0, 2**31 - 1, 2**31, -(2**31) - 1)] == ["I", "I", "l", "l"]


@pytest.mark.parametrize(
    "field",
    [
        Field("b", 128),
        Field("B", -1),
        Field("I", "text"),
        Field("S", b"bytes"),
        Field("x", "text"),
        Field("F", 1),
        Field("A", [1]),  # type: ignore[arg-type]  # on purpose
        Field("d", "1"),
        Field("f", 1e300),
        Field("D", Decimal(-1)),
        Field("D", Decimal("1e3")),
        Field("D", Decimal("NaN")),
        Field("D", Decimal(2**32)),
        Field("Z", 1),
        Field("S", "\ud800"),
    ],
)
def test_values_that_their_type_cannot_say_are_refused(field: Field) -> None:
    with pytest.raises(InvalidArgument):
        table_bytes({"k": field}, "a table")


def test_what_has_no_type_or_no_room_is_refused() -> None:
    for value in (2**63, object(), {1, 2}):
        with pytest.raises(InvalidArgument):
            field_of(value)
    with pytest.raises(TooLarge):
        table_bytes({"k" * 256: Field("V", None)}, "a table")
