"""Arrow columns as a batch: the layout is the same, so that their buffers are the batch's, and no row is looked at."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import TooLarge
from penstock.core.ports import Buffer
from penstock.log.header import (
    HEADER,
    HEADER_BYTES,
    KEY,
    MAGIC,
    MAX_BODY_BYTES,
    NATIVE,
    PROPERTIES,
    TOPIC,
    VALUE,
    VERSION,
)

_INT32 = pa.int32()
_TOPIC_COUNT = Struct("<ixxxx")
_NO_BYTES = memoryview(b"")
_PADDING = [bytes(count) for count in range(8)]

Pieces: TypeAlias = "list[Buffer]"


class ArrowColumns(NamedTuple):
    """Arrays of pa.binary() without nulls, all of one length, whose offsets were validated; a field that a record does
    not have is empty, a column without any None."""

    value: pa.Array
    key: pa.Array | None = None
    topic: pa.Array | None = None
    properties: pa.Array | None = None
    native: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.value)

    def part(self, first: int, stop: int) -> ArrowColumns:
        """Not copied."""
        return ArrowColumns(*[None if column is None else column.slice(first, stop - first) for column in self])

    def take(self, order: pa.Array) -> ArrowColumns:
        return ArrowColumns(*[None if column is None else column.take(order) for column in self])

    @property
    def bytes(self) -> int:
        """That the batch takes, at most; by what offsets say, without a look at rows."""
        columns = [column for column in self if column is not None]
        index_bytes = 0 if self.topic is None else 4 * len(self.topic) + 16
        return HEADER_BYTES + index_bytes + sum(_data_bytes(column) + 4 * len(column) + 20 for column in columns)


def encoded(columns: ArrowColumns) -> Pieces:
    """The bytes of a batch, which lacks what the log decides, in pieces that stand one behind the other: the same as
    log.batch.encode() makes of the same records. The pieces are the columns' own memory. TooLarge."""
    pieces: Pieces = []
    flags = VALUE
    if columns.topic is not None:
        flags |= TOPIC
        _add_topics(pieces, columns.topic)
    given = ((KEY, columns.key), (PROPERTIES, columns.properties), (NATIVE, columns.native), (0, columns.value))
    for flag, column in given:
        if column is not None:
            flags |= flag
            _add_column(pieces, column)
    body_bytes = sum(map(len, pieces))
    if body_bytes > MAX_BODY_BYTES:
        raise TooLarge("batch body", body_bytes, MAX_BODY_BYTES)
    head = (MAGIC, 0, 0, body_bytes, len(columns), 0, flags, 0, VERSION, 0, 0, 0, 0, 0, 0)
    return [HEADER.pack(*head), *pieces]


def _add_topics(pieces: Pieces, topics: pa.Array) -> None:
    numbered = topics.dictionary_encode()
    index = numbered.indices.cast(_INT32)
    _add(pieces, memoryview(index.buffers()[1]).cast("B")[4 * index.offset : 4 * (index.offset + len(index))])
    pieces.append(_TOPIC_COUNT.pack(len(numbered.dictionary)))
    _add_column(pieces, numbered.dictionary)


def _add_column(pieces: Pieces, column: pa.Array) -> None:
    """Offsets from 0 on, then the bytes, each padded to 8."""
    count, places, data = len(column), places_of(column), column.buffers()[2]
    first, end = places[0], places[count]
    if first:
        whole = pa.Array.from_buffers(_INT32, count + 1, [None, column.buffers()[1]], offset=column.offset)
        places = memoryview(pc.subtract(whole, pa.scalar(first, _INT32)).buffers()[1]).cast("B").cast("i")[: count + 1]
    _add(pieces, places.cast("B"))
    _add(pieces, _NO_BYTES if data is None else memoryview(data).cast("B")[first:end])


def _add(pieces: Pieces, data: memoryview) -> None:
    pieces.append(data)
    if left := -len(data) % 8:
        pieces.append(_PADDING[left])


def places_of(column: pa.Array) -> memoryview[int]:
    """Where entries begin and end in the bytes of a binary column, as int32: one more than there are entries."""
    return memoryview(column.buffers()[1]).cast("B").cast("i")[column.offset : column.offset + len(column) + 1]


def _data_bytes(column: pa.Array) -> int:
    places = places_of(column)
    return places[len(column)] - places[0]
