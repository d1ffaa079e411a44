"""The columns that a queue is written from, and Spark's batches as the server takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from penstock.core.errors import InvalidArgument
from penstock.core.queue_paths import canonical_queue
from penstock.tables.schema import HEADERS

_TEXT_OR_BYTES = (BinaryType, StringType)
# Large rows are staged fewer at a time: the client cuts what is larger, so that to join it would be a copy for nothing.
_STAGE_BYTES = 4 << 20


def _is_text_or_bytes(kind: DataType) -> bool:
    return isinstance(kind, _TEXT_OR_BYTES)


def _is_number(kind: DataType) -> bool:
    return isinstance(kind, ByteType | ShortType | IntegerType | LongType)


def _is_headers(kind: DataType) -> bool:
    """A map of names to values, or pairs of them, of which a name may be there twice."""
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and _is_text_or_bytes(kind.valueType)
    pair = kind.elementType if isinstance(kind, ArrayType) else None
    if not isinstance(pair, StructType) or pair.fieldNames() != ["key", "value"]:
        return False
    return isinstance(pair["key"].dataType, StringType) and _is_text_or_bytes(pair["value"].dataType)


_COLUMNS: dict[str, tuple[Callable[[DataType], bool], str]] = {
    "key": (_is_text_or_bytes, "binary or string"),
    "value": (_is_text_or_bytes, "binary or string"),
    "topic": (lambda kind: isinstance(kind, StringType), "string"),
    "headers": (_is_headers, "map<string,binary> or array<struct<key:string,value:binary>>"),
    "partition": (_is_number, "int"),
    "native": (lambda kind: isinstance(kind, BinaryType), "binary"),
}
# Those of a row that was read from a queue: a message gets them anew, or its options say them.
_OF_READ_ROWS = ("queue", "offset", "timestamp", "timestampType", "deadLetter")


def check_sink_schema(schema: StructType, has_targets: bool = False) -> None:
    """InvalidArgument for a column that messages do not have, that is given twice or has a type that none can be made
    of; and without `value`."""
    names = schema.fieldNames()
    for field in schema.fields:
        if field.name in _OF_READ_ROWS and (has_targets or "offset" in names):
            continue
        if field.name == "queue":
            raise InvalidArgument(
                "a column 'queue' names the target of its row only with the option queues, which lists those that rows "
                "may name: set that instead of queue, or leave the column out"
            )
        if field.name not in _COLUMNS:
            raise InvalidArgument(
                f"unknown column {field.name!r}: a message has {', '.join(_COLUMNS)}. Leave the column out, or put it "
                f"into the value, as in df.select(to_json(struct('*')).alias('value'))"
            )
        accepts, wanted = _COLUMNS[field.name]
        if not accepts(field.dataType):
            raise InvalidArgument(
                f"column {field.name!r} is {field.dataType.simpleString()}, and has to be {wanted}: cast it"
            )
    if twice := [name for name in _COLUMNS if names.count(name) > 1]:
        raise InvalidArgument(f"column {twice[0]!r} is given twice: leave one out")
    if has_targets and ("queue" not in names or not isinstance(schema["queue"].dataType, StringType)):
        raise InvalidArgument(
            "option queues needs a column 'queue' (string) that names the queue of each row; to write all rows to one, "
            "set the option queue instead. A column 'topic' is not a target: it says where a message was published"
        )
    if "value" not in names:
        raise InvalidArgument(
            "there is no column 'value', which holds the message: name a column so, with alias('value')"
        )


def as_messages(batches: Iterable[pa.RecordBatch], with_queue: bool) -> Iterator[pa.RecordBatch]:
    """Without the columns that a row which was read has and a message has not; `queue` stays where that is wanted."""
    for batch in batches:
        names = [name for name in batch.schema.names if name in _COLUMNS or (with_queue and name == "queue")]
        yield batch if len(names) == batch.num_columns else batch.select(names)


def by_queue(batch: pa.RecordBatch, allowed: Iterable[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each queue that rows name, in their order. InvalidArgument for one that is not allowed."""
    import pyarrow.compute as pc  # as long to import as all the rest of a commit

    column = batch.column("queue").cast(pa.string())
    rows = batch.drop_columns(["queue"])
    names, meant = pc.unique(column).to_pylist(), set(map(canonical_queue, allowed))
    for name in names:
        if name is None or canonical_queue(name) not in meant:
            said = "a row names no queue" if name is None else f"a row names queue {name!r}"
            raise InvalidArgument(f"{said}, which is not one of the option queues: add it there, or filter such rows")
    for name in names:
        yield name, rows.filter(pc.equal(column, name))


def stageable(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches of about so many, fewer where they are large."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        for piece in _pieces(_with_headers(batch), rows):
            if waiting and not _fit([*waiting, piece], rows):
                yield _joined(waiting)
                waiting = []
            waiting.append(piece)
    if waiting:
        yield _joined(waiting)


def _pieces(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """None for an empty one."""
    step = min(rows, max(1, batch.num_rows * _STAGE_BYTES // max(batch.nbytes, 1)))
    for at in range(0, batch.num_rows, step):
        yield batch.slice(at, step)


def _fit(batches: list[pa.RecordBatch], rows: int) -> bool:
    size_bytes: int = sum(batch.nbytes for batch in batches)
    return sum(batch.num_rows for batch in batches) <= rows and size_bytes <= _STAGE_BYTES


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _with_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Headers as the server takes them, whether they were a map or pairs, of text or of bytes."""
    if (at := batch.schema.get_field_index("headers")) < 0:
        return batch
    column = batch.column(at)
    kind = pa.map_(pa.string(), pa.binary()) if pa.types.is_map(column.type) else HEADERS
    return batch.set_column(at, pa.field("headers", kind), column.cast(kind))
