"""Which columns a queue is written from, and how they are handed over."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from penstock.core.errors import InvalidArgument
from penstock.spark.sink_schema import check_sink_schema, stageable
from penstock.tables.schema import HEADERS

BYTES, TEXT, NUMBER = BinaryType(), StringType(), IntegerType()
PAIRS = ArrayType(StructType([StructField("key", TEXT), StructField("value", BYTES)]))


def _schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    "schema",
    [
        _schema(value=BYTES),
        _schema(value=TEXT),
        _schema(key=TEXT, value=TEXT, topic=TEXT, partition=NUMBER),
        _schema(headers=MapType(TEXT, TEXT), key=BYTES, value=BYTES, partition=LongType()),
        _schema(headers=PAIRS, value=TEXT),
    ],
)
def test_a_message_is_made_of_these(schema: StructType) -> None:
    check_sink_schema(schema)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            _schema(value=TEXT, amount=NUMBER),
            "unknown column 'amount': a message has key, value, topic",
        ),
        (_schema(value=TEXT, queue=TEXT), "a column 'queue' names the target of its row only with the option queues"),
        (_schema(value=TEXT, timestampType=NUMBER), "unknown column 'timestampType'"),
        (_schema(value=DoubleType()), "column 'value' is double, and has to be binary or string"),
        (_schema(value=TEXT, partition=TEXT), "column 'partition' is string, and has to be int"),
        (_schema(value=TEXT, headers=MapType(TEXT, NUMBER)), "column 'headers' is map<string,int>"),
        (_schema(value=TEXT, headers=ArrayType(TEXT)), "column 'headers' is array<string>"),
        (_schema(value=TEXT, topic=BYTES), "column 'topic' is binary, and has to be string"),
        (_schema(key=TEXT), "there is no column 'value'"),
        (StructType([*_schema(value=TEXT), *_schema(value=TEXT)]), "column 'value' is given twice"),
    ],
)
def test_what_no_message_is_made_of_is_named(schema: StructType, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        check_sink_schema(schema)


def _batch(first: int, stop: int, width: int = 1) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([b"%d" % number * width for number in range(first, stop)])})


def test_small_batches_are_joined_and_large_ones_cut_in_order() -> None:
    batches = [_batch(0, 3), _batch(3, 3), _batch(3, 4), _batch(4, 30), _batch(30, 31)]
    found = list(stageable(batches, rows=10))
    assert [batch.num_rows for batch in found] == [4, 10, 10, 7]
    assert [int(value) for batch in found for value in batch.column("value").to_pylist()] == list(range(31))
    assert list(stageable([_batch(0, 0)], rows=10)) == []


def test_large_rows_are_handed_over_by_their_bytes() -> None:
    found = list(stageable([_batch(10, 20, width=1 << 19)], rows=1000))
    assert [batch.num_rows for batch in found] == [3, 3, 3, 1]


def test_batches_that_are_sent_one_by_one_anyway_are_not_joined() -> None:
    batches = [_batch(10, 20, width=150_000), _batch(20, 30, width=150_000)]
    found = list(stageable(batches, rows=1000))
    assert [each.column("value").buffers()[2].address for each in found] == [
        each.column("value").buffers()[2].address for each in batches
    ]


@pytest.mark.parametrize(
    ("kind", "headers"),
    [
        (pa.map_(pa.string(), pa.string()), [[("a", "1")], None]),
        (pa.map_(pa.string(), pa.binary()), [[("a", b"1")], None]),
        (pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])), [[{"key": "a", "value": "1"}], None]),
        (pa.list_(pa.field("element", HEADERS.value_type, nullable=False)), [[{"key": "a", "value": b"1"}], None]),
    ],
)
def test_headers_are_bytes_however_they_were_written(kind: pa.DataType, headers: list[object]) -> None:
    batch = pa.record_batch({"value": pa.array([b"a", b"b"]), "headers": pa.array(headers, kind)})
    [made] = stageable([batch], rows=10)
    first, second = made.column("headers").to_pylist()
    assert first in ([("a", b"1")], [{"key": "a", "value": b"1"}]) and second is None
