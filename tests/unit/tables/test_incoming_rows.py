from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.core.errors import InvalidArgument, TooLarge
from penstock.queues.properties import Envelope, pack
from penstock.tables.incoming import check_columns, columns_of, partitions_of
from penstock.tables.schema import HEADERS

TYPES = [
    pa.binary(),
    pa.string(),
    pa.large_binary(),
    pa.large_string(),
    pa.binary_view(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_binary()),
]


def typed(rows: list[str | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(rows).cast(kind.value_type).dictionary_encode().cast(kind)
    return pa.array(rows).cast(kind)


def _pair(name: str, value: str, is_map: bool) -> object:
    return (name, value) if is_map else {"key": name, "value": value}


def rows_in(column: pa.Array | None) -> list[bytes]:
    assert column is not None
    rows: list[bytes] = column.to_pylist()
    return rows


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_bytes_and_text_of_any_layout_are_taken_and_null_is_empty(kind: pa.DataType) -> None:
    rows = typed(["a", None, "ccc"], kind)
    batch = pa.record_batch({"value": rows, "key": rows, "topic": rows})
    check_columns(batch.schema)
    for sliced in (batch, batch.slice(1)):
        columns = columns_of(sliced)
        for column in (columns.value, columns.key, columns.topic):
            assert rows_in(column) == [b"a", b"", b"ccc"][-sliced.num_rows :]


def test_a_null_that_hides_bytes_is_empty_all_the_same() -> None:
    hidden = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"), pa.py_buffer(b"abc")]
    )
    assert columns_of(pa.record_batch({"value": hidden})).value.to_pylist() == [b"a", b""]


@pytest.mark.parametrize(
    "kind",
    [
        HEADERS,
        pa.map_(pa.string(), pa.binary()),
        pa.map_(pa.string(), pa.string()),
        pa.large_list(pa.struct([("key", pa.string()), ("value", pa.string())])),
        pa.list_(pa.struct([("value", pa.large_binary()), ("key", pa.string())])),
    ],
    ids=str,
)
def test_headers_become_user_properties(kind: pa.DataType) -> None:
    is_map = pa.types.is_map(kind)
    pairs = [[("a", "1"), ("b", "")], None, [], [("c", "3")]]
    made: list[object] = [row and [_pair(*pair, is_map) for pair in row] for row in pairs]
    batch = pa.record_batch({"value": ["x"] * 4, "headers": pa.array(made, kind)})
    check_columns(batch.schema)
    wanted = [pack(Envelope(tuple(row or ()))) for row in pairs]
    assert rows_in(columns_of(batch).properties) == wanted
    assert rows_in(columns_of(batch.slice(1)).properties) == wanted[1:]


def test_columns_that_say_nothing_are_none() -> None:
    batch = pa.record_batch({"value": ["x"], "key": [""], "topic": pa.array([None], pa.string())})
    assert columns_of(batch)[1:] == (None, None, None, None)
    assert partitions_of(pa.record_batch({"value": ["x"], "partition": pa.array([None], pa.int64())}), 1) is None


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"value": ["x"], "price": [1]}, "no column 'price' can be stored: there are value, key"),
        ({"key": ["x"]}, "'value' is missing"),
        ({"value": [1]}, "column 'value' is int64: it has to be binary or text"),
        ({"value": ["x"], "partition": ["1"]}, "has to be an integer"),
        ({"value": ["x"], "headers": [["a"]]}, "a list of structs with key and value"),
    ],
)
def test_a_column_that_cannot_be_stored_is_refused_by_name(columns: dict[str, list[object]], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        check_columns(pa.record_batch(columns).schema)
    twice = pa.record_batch([pa.array(["x"]), pa.array(["y"])], names=["value", "value"])
    with pytest.raises(InvalidArgument, match="twice"):
        check_columns(twice.schema)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"topic": ["a/#"]}, "no wildcards"),
        ({"topic": [b"\xff"]}, "not UTF-8"),
        ({"headers": pa.array([[("a", b"\xff")]], pa.map_(pa.string(), pa.binary()))}, "not UTF-8"),
        ({"headers": pa.array([[("a", b"\0")]], pa.map_(pa.string(), pa.binary()))}, "NUL"),
        ({"headers": pa.array([[None]], HEADERS)}, "no name"),
        ({"headers": pa.array([[{"key": None, "value": b""}]], HEADERS)}, "no name"),
    ],
)
def test_what_other_protocols_could_not_carry_is_refused(column: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        columns_of(pa.record_batch({"value": ["x"], **column}))


def test_arrays_that_lie_about_their_bytes_are_refused() -> None:
    places = pa.py_buffer(b"\0\0\0\0\x7f\0\0\0\3\0\0\0")
    lying = pa.Array.from_buffers(pa.binary(), 2, [None, places, pa.py_buffer(b"abc")])
    with pytest.raises(InvalidArgument, match="cannot be read"):
        columns_of(pa.record_batch([lying], names=["value"]))


def test_partitions_that_are_not_there_are_refused() -> None:
    batch = pa.record_batch({"value": ["x"] * 3, "partition": pa.array([2, None, 0], pa.uint64())})
    found = partitions_of(batch, 3)
    assert found is not None
    assert found.to_pylist() == [2, None, 0]
    for count, wanted in ((2, 2), (1, 2)):
        with pytest.raises(InvalidArgument, match=f"no partition {wanted}"):
            partitions_of(batch, count)
    with pytest.raises(InvalidArgument, match="no partition -1"):
        partitions_of(pa.record_batch({"value": ["x"], "partition": [-1]}), 3)


@pytest.mark.parametrize("kind", [pa.dictionary(pa.int8(), pa.string()), pa.string_view(), pa.binary_view()], ids=str)
def test_rows_that_share_their_bytes_are_counted_as_often_as_they_name_them(kind: pa.DataType) -> None:
    shared = typed(["x" * 1000, None, "x" * 1000], kind)
    batch = pa.record_batch({"value": shared})
    assert len(columns_of(batch, 2000)) == 3
    with pytest.raises(TooLarge, match="is 2000 bytes, the limit is 1999"):
        columns_of(batch, 1999)
