"""The columns of a queue's rows, under Kafka's names where Kafka has one."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import lru_cache

from penstock.core.errors import InvalidArgument

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("queues as tables need pyarrow: pip install 'penstock[arrow]'") from error

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("queue", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", HEADERS),
    ]
)
"""`key` is null without one; an empty `value` may be a tombstone. `topic`: where it was published, the queue's own
address where it was put into the queue. `timestamp`: when the broker appended it, never decreasing in a partition; so
`timestampType` is 0 in every row. `headers`: properties in their order, an empty list without any."""

DEFAULT_COLUMNS = tuple(name for name in SCHEMA.names if name != "headers")
"""without headers, which have to be parsed"""


def projected(columns: Sequence[str] | None) -> pa.Schema:
    """Of the named columns in their order, DEFAULT_COLUMNS if None. InvalidArgument for one that is not there, is named
    twice, or for none at all."""
    return _projected(DEFAULT_COLUMNS if columns is None else tuple(columns))


@lru_cache
def _projected(names: tuple[str, ...]) -> pa.Schema:
    if not names or len(set(names)) != len(names):
        raise InvalidArgument(f"columns {', '.join(names) or 'none'}: name at least one, and each once")
    for name in names:
        if name not in SCHEMA.names:
            nearest = difflib.get_close_matches(name, SCHEMA.names, 1)
            hint = f"did you mean {nearest[0]}? " if nearest else ""
            raise InvalidArgument(f"no column {name[:80]!r}: {hint}there are {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in names])
