"""A batch that another process encoded, on its way into a log: looked at once as a whole, then stored as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.core.errors import CorruptBatch
from penstock.core.types import Compression
from penstock.kernels import amqp_view
from penstock.kernels import rows as kernel
from penstock.log import batch as batches
from penstock.log.batch import KEY, NATIVE, OFFSET_DELTA, PROPERTIES, TIMESTAMP_DELTA, TOPIC, VALUE, Batch
from penstock.log.columns import Columns

# What only logs write.
_NOT_TAKEN = TIMESTAMP_DELTA | OFFSET_DELTA


@dataclass(frozen=True, slots=True)
class Encoded:
    """In a commit it takes the place of Columns, once: its bytes are the log's from then on."""

    data: bytearray
    batch: Batch

    @classmethod
    def checked(cls, data: bytearray) -> Encoded:
        """CorruptBatch unless it is what log.batch.encode() makes of columns: whole, uncompressed, with rows. The
        checksum is not looked at, as it is written with the offsets."""
        batch = Batch.parse(data, verify=False)
        header = batch.header
        is_plain = not (header.compression or header.producer_id or header.flags & _NOT_TAKEN)
        if not is_plain or not header.count or not header.flags & VALUE:
            raise CorruptBatch("it is not as columns are encoded")
        if (native := batch.spans(NATIVE)) is not None and amqp_view.wrong(batch.body, native.starts, native.ends) >= 0:
            raise CorruptBatch("it has native properties that no door writes")
        return cls(data, batch)

    @property
    def count(self) -> int:
        return self.batch.header.count

    @property
    def bytes(self) -> int:
        return len(self.data)

    @property
    def bytes_at_most(self) -> int:
        return len(self.data)

    @property
    def longest_value(self) -> int:
        column = self.batch.var_column(VALUE)
        places = memoryview(b"\0\0\0\0" if column is None else column[1]).cast("i")
        return kernel.longest(places[:-1], places[1:])

    def longest_row(self, enough: int) -> int:
        """As Columns.longest_row()."""
        bound = 0
        for flag in (TOPIC, KEY, PROPERTIES, NATIVE, VALUE):
            if (column := self.batch.var_column(flag)) is not None:
                places = memoryview(column[1]).cast("i")
                bound += kernel.longest(places[:-1], places[1:])
        return bound if bound <= enough else self.columns().longest_row(enough)

    def columns(self) -> Columns:
        return self.batch.columns()

    def scatter(self, partitions: int, unkeyed: int = 0) -> list[tuple[int, Rows]]:
        """As Columns.scatter(); rows that all go to one partition stay as they are encoded."""
        numbers, counts, gathered = self.columns().gathered(partitions, unkeyed)
        return [(numbers[0], self)] if len(numbers) == 1 else list(gathered.parts(numbers, counts))


Rows: TypeAlias = Columns | Encoded


def encode(rows: Rows, compression: Compression = Compression.NONE) -> bytearray:
    """As log.batch.encode()."""
    if isinstance(rows, Columns):
        return batches.encode(rows, compression)
    return batches.encode(rows.columns(), compression) if compression else rows.data
