"""`format("penstock")`: queues for Spark's batches and streams."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from penstock.core.errors import InvalidArgument
from penstock.spark.options import column_options, parse_options
from penstock.spark.reader import QueueReader
from penstock.spark.schema import DDL, check_columns, ddl_of, picked_columns
from penstock.spark.stream import QueueStreamReader


class PenstockSource(DataSource):
    """Register it with `spark.dataSource.register(PenstockSource)`; where `pyspark_penstock` is on the Python path,
    Spark does so by itself. docs/howto/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        columns, include_headers = column_options(self.options)
        return ddl_of(picked_columns(columns, include_headers))

    def reader(self, schema: StructType) -> DataSourceReader:
        return QueueReader(parse_options(self.options, is_stream=False), _columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return QueueStreamReader(parse_options(self.options, is_stream=True), _columns_of(schema))


def _columns_of(schema: StructType) -> tuple[str, ...]:
    """Those of a schema that we gave, or that the user did: `.schema("key binary, value binary")` reads two."""
    columns = check_columns(schema.fieldNames())
    for field in schema.fields:
        if field.dataType.simpleString() != DDL[field.name]:
            raise InvalidArgument(
                f"column {field.name!r} is {DDL[field.name]}, not {field.dataType.simpleString()}: "
                f"read it as it is and cast it, as in df.{field.name}.cast(...)"
            )
    return columns
