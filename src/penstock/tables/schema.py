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
DEAD_LETTER = pa.struct(
    [
        pa.field("queue", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("group", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("deliveryCount", pa.int64()),
        pa.field("failures", pa.int64()),
        pa.field("firstFailed", pa.timestamp("us", "UTC")),
        pa.field("time", pa.timestamp("us", "UTC")),
    ]
)
"""Origin and reason of a dead letter. `deliveryCount`: how often a consumer had it,
`failures`: how often one failed with it, `firstFailed`: null if none did."""

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
        pa.field("deadLetter", DEAD_LETTER),
        pa.field("native", pa.binary()),
    ]
)
"""`key` is null without one, `value` where it was published as null; in a compacted queue both
a null and an empty value are tombstones. `topic`: where it was published, the queue's own
address where it was put into the queue. `timestamp`: when the broker appended it, never decreasing in a partition; so
`timestampType` is 0 in every row. `headers`: properties in their order, an empty list without any.
`deadLetter`: null but for messages that a group has given up on. `native`: the properties that
came by AMQP as they came, for programs that store messages again; null where there are none. What they say is among the
headers."""

DEFAULT_COLUMNS = tuple(name for name in SCHEMA.names if name not in ("headers", "deadLetter", "native"))
"""without those for which properties have to be parsed"""


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
