"""`format("penstock")`: queues for Spark's batches and streams, to read and to write."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.spark.options import column_options, parse_options
from penstock.spark.reader import QueueReader
from penstock.spark.schema import columns_of, picked_columns, schema_of
from penstock.spark.sink_options import parse_sink_options
from penstock.spark.stream import QueueStreamReader
from penstock.spark.writer import QueueStreamWriter, QueueWriter, refuse_overwriting


class PenstockSource(DataSource):
    """Register it with `spark.dataSource.register(PenstockSource)`; where `pyspark_penstock` is on the Python path,
    Spark does so by itself. docs/howto/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        return schema_of(picked_columns(*column_options(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        return QueueReader(parse_options(self.options, is_stream=False), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return QueueStreamReader(parse_options(self.options, is_stream=True), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        refuse_overwriting(overwrite)
        return QueueWriter(parse_sink_options(self.options, is_stream=False), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        refuse_overwriting(overwrite)
        return QueueStreamWriter(parse_sink_options(self.options, is_stream=True), schema)
