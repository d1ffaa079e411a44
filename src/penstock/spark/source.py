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

from penstock.core.errors import PenstockError
from penstock.spark.plainly import plainly
from penstock.spark.workers import task_begins

# What a call needs is imported by it: Spark has processes that only plan or commit, which would import all that reads.


class PenstockSource(DataSource):
    """Register it with `spark.dataSource.register(PenstockSource)`; where `pyspark_penstock` is on the Python path,
    Spark does so by itself. docs/howto/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    @plainly
    def schema(self) -> StructType:
        from penstock.spark.options import column_options
        from penstock.spark.schema import picked_columns, schema_of

        return schema_of(picked_columns(*column_options(self.options)))

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.options import parse_options
        from penstock.spark.reader import QueueReader
        from penstock.spark.schema import columns_of

        return QueueReader(parse_options(self.options, is_stream=False), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Spark loses an error of this call behind one of its own: what is wrong is said when it asks for offsets."""
        from penstock.spark.options import parse_options
        from penstock.spark.schema import columns_of
        from penstock.spark.stream import QueueStreamReader, RefusedStreamReader

        try:
            return QueueStreamReader(parse_options(self.options, is_stream=True), columns_of(schema))
        except PenstockError as error:
            return RefusedStreamReader(error)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink_options import parse_sink_options
        from penstock.spark.writer import QueueWriter, refuse_overwriting

        refuse_overwriting(overwrite)
        return QueueWriter(parse_sink_options(self.options, is_stream=False), schema)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.sink_options import parse_sink_options
        from penstock.spark.writer import QueueStreamWriter, refuse_overwriting

        task_begins()
        refuse_overwriting(overwrite)
        return QueueStreamWriter(parse_sink_options(self.options, is_stream=True), schema)
