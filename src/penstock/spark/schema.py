"""The columns of a row as Spark has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.core.errors import InvalidArgument
from penstock.tables.schema import DEFAULT_COLUMNS, projected

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_DEAD_LETTER = StructType(
    [
        StructField("queue", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("group", StringType()),
        StructField("reason", StringType()),
        StructField("detail", StringType()),
        StructField("deliveryCount", LongType()),
        StructField("failures", LongType()),
        StructField("firstFailed", TimestampType()),
        StructField("time", TimestampType()),
    ]
)
_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "queue": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
    "deadLetter": _DEAD_LETTER,
    "native": BinaryType(),
}
"""What Spark makes of each column of tables/schema.py."""


def check_columns(names: Iterable[str]) -> tuple[str, ...]:
    """InvalidArgument unless each is a column, and none is given twice."""
    return tuple(projected(tuple(names)).names)


def picked_columns(
    columns: Sequence[str] | None, include_headers: bool, include_dead_letters: bool = False
) -> tuple[str, ...]:
    """Those of the options: what `columns` says, else all, that of dead letters if they are read, headers only when
    asked for."""
    picked = DEFAULT_COLUMNS if columns is None else tuple(columns)
    if include_dead_letters and columns is None:
        picked = (*picked, "deadLetter")
    return (*picked, "headers") if include_headers and "headers" not in picked else picked


def schema_of(columns: Iterable[str]) -> StructType:
    return StructType([StructField(name, _TYPES[name]) for name in columns])


def columns_of(schema: StructType) -> tuple[str, ...]:
    """Those of a schema that schema_of() made, or that a user wrote: `.schema("key binary, value binary")` reads two.
    InvalidArgument for a column that is none, or has another type."""
    columns = check_columns(schema.fieldNames())
    for field in schema.fields:
        kind = _TYPES[field.name]
        if field.dataType != kind:
            raise InvalidArgument(
                f"column {field.name!r} is {kind.simpleString()}, not {field.dataType.simpleString()}: "
                f"read it as it is and cast it, as in df.{field.name}.cast(...)"
            )
    return columns
