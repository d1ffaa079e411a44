"""Python data sources that have nothing to do, to hold one against that has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.spark.schema import picked_columns, schema_of
from penstock.tables.partition_rows import BATCH_ROWS
from penstock.tables.schema import projected

VALUE_BYTES = 256
_TASKS = 2
_ROW = {
    "key": b"key-00",
    "value": bytes(VALUE_BYTES),
    "topic": "$queue/orders",
    "queue": "orders",
    "partition": 0,
    "offset": 0,
    "timestamp": datetime(2026, 1, 1, tzinfo=UTC),
    "timestampType": 0,
}


class _YardstickReader(DataSourceReader):
    def __init__(self, rows: int, columns: list[str]) -> None:
        self._rows, self._columns = rows, columns

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows // _TASKS) for _ in range(_TASKS)]


class NullReader(_YardstickReader):
    """The same Arrow batch again and again: what is left is Spark's own work."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        whole = _batch(self._columns)
        for at in range(0, partition.value, BATCH_ROWS):
            yield whole.slice(0, min(BATCH_ROWS, partition.value - at))


class TupleReader(_YardstickReader):
    """The same tuple again and again: the least that a source costs which yields rows."""

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        row = tuple(_ROW[name] for name in self._columns)
        for _ in range(partition.value):
            yield row


def _batch(columns: list[str]) -> pa.RecordBatch:
    schema = projected(columns)
    arrays = [_array(field) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(field: pa.Field) -> pa.Array:
    if field.name == "value":
        return pa.array([os.urandom(VALUE_BYTES) for _ in range(BATCH_ROWS)], field.type)
    return pa.array([_ROW[field.name]] * BATCH_ROWS, field.type)


class NullSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "null_batches"

    def schema(self) -> StructType:
        names = self.options.get("columns")
        return schema_of(picked_columns(names.split(",") if names else None, include_headers=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        return NullReader(int(self.options["rows"]), schema.fieldNames())


class TupleSource(NullSource):
    @classmethod
    def name(cls) -> str:
        return "null_tuples"

    def reader(self, schema: StructType) -> DataSourceReader:
        return TupleReader(int(self.options["rows"]), schema.fieldNames())
