"""Bytes that are text, or should be."""

from __future__ import annotations

import pyarrow as pa


def text(column: pa.Array) -> pa.Array:
    """Bytes as text. Publishers may send any: what is not UTF-8 gets replacement characters."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        replaced = [None if data is None else data.decode(errors="replace") for data in column.to_pylist()]
        return pa.array(replaced, pa.string())
