"""The columns of a row as Spark has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from penstock.tables.schema import DEFAULT_COLUMNS, projected

DDL = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "queue": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""Spark's type of each column of tables/schema.py."""

_HEADERS = "headers"
# Spark has another name for what is in a list, and refuses batches that do not have it.
_SPARK_HEADERS = pa.field(
    _HEADERS,
    pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
)


def check_columns(names: Iterable[str]) -> tuple[str, ...]:
    """InvalidArgument unless each is a column, and none is there twice."""
    return tuple(projected(tuple(names)).names)


def picked_columns(columns: Sequence[str] | None, include_headers: bool) -> tuple[str, ...]:
    """Those of the options: what `columns` says, else all, headers only when asked for."""
    picked = DEFAULT_COLUMNS if columns is None else tuple(columns)
    return (*picked, _HEADERS) if include_headers and _HEADERS not in picked else picked


def ddl_of(columns: Iterable[str]) -> str:
    return ", ".join(f"{name} {DDL[name]}" for name in columns)


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """What Spark takes batches of these columns in; it refuses anything that differs."""
    return pa.schema([_SPARK_HEADERS if field.name == _HEADERS else field for field in projected(columns)])
