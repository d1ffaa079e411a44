"""The body of the action `commit-rows`: a line of JSON, and behind it the rows as an Arrow stream."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from penstock.core.errors import InvalidArgument, TooLarge
from penstock.gateways.flight.commands import Name
from penstock.gateways.flight.partition_groups import Group
from penstock.log.reading.arrow_encoding import encoded
from penstock.tables.incoming import check_columns, columns_of

# They are held whole, by whoever sends them, here and in the server, and are meant to fit a frame.
MAX_ROWS_BYTES = 8 << 20


class RowsHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`commit` is the body of an action `commit`."""

    queue: Name
    commit: msgspec.Raw
    namespace: Name | None = None
    create_queue: bool = True


def parse_rows_body(body: bytes) -> tuple[RowsHead, list[Group]]:
    """What is committed, and the rows as the log stores them, a batch each. InvalidArgument, TooLarge."""
    line, _, stream = body.partition(b"\n")
    if len(stream) > MAX_ROWS_BYTES:
        raise TooLarge("the rows of a commit", len(stream), MAX_ROWS_BYTES)
    try:
        head = msgspec.json.decode(line, type=RowsHead)
        with pa.ipc.open_stream(stream) as reader:
            check_columns(reader.schema)
            batches = [batch for batch in reader if batch.num_rows]
    except (msgspec.DecodeError, UnicodeDecodeError, pa.ArrowException, OSError) as error:
        raise InvalidArgument(
            f"the body of the action cannot be read ({str(error)[:200]}): write a line of JSON and an Arrow stream"
        ) from None
    if not batches or "partition" in reader.schema.names:
        raise InvalidArgument("commit-rows takes rows without a column 'partition', and at least one: stage others")
    return head, [_group(batch) for batch in batches]


def _group(batch: pa.RecordBatch) -> Group:
    columns = columns_of(batch, MAX_ROWS_BYTES)
    if columns.bytes > MAX_ROWS_BYTES:
        raise TooLarge("the rows of a commit", columns.bytes, MAX_ROWS_BYTES)
    return Group(encoded(columns), len(columns))
