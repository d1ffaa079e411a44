"""The tour's last scene: a log as one Arrow table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.core.ports import Buffer

# pyarrow is an extra; what needs it says how to get it.
INSTALL = "pip install 'penstock[arrow]'"


@dataclass(frozen=True, slots=True)
class Summary:
    rows: int
    value_bytes: int
    offsets: tuple[int, int]
    """first and last"""
    top_keys: list[tuple[str, int]]


def summarise(raw_batches: Iterable[Buffer], top: int = 5) -> Summary:
    """ImportError without pyarrow."""
    import pyarrow.compute as pc

    from penstock.log import arrow

    table = arrow.table(raw_batches, ["offset", "key", "value"])
    counts = (
        table.group_by("key")
        .aggregate([([], "count_all")])
        .sort_by([("count_all", "descending"), ("key", "ascending")])
    )
    bounds = pc.min_max(table["offset"]).as_py()
    return Summary(
        rows=table.num_rows,
        value_bytes=pc.sum(pc.binary_length(table["value"])).as_py(),
        offsets=(bounds["min"], bounds["max"]),
        top_keys=[(row["key"].decode(), row["count_all"]) for row in counts.slice(0, top).to_pylist()],
    )
