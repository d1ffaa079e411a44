"""Rows of a partition as Parquet files, one for each day they were appended on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.jobs.archive_manifest import ArchivedFile, Range
from penstock.jobs.files import appearing
from penstock.jobs.ranges import QueueRange
from penstock.tables.schema import SCHEMA
from penstock.tables.table import QueueTable

COLUMNS = tuple(name for name in SCHEMA.names if name not in ("queue", "partition"))
"""of the files; queue, date and partition are in their paths, where every reader of such trees finds them"""

# Rows that are compressed together: readers skip groups by their least and greatest values.
_GROUP_ROWS, _GROUP_BYTES = 131_072, 64 << 20
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class ArchivePiece:
    source: QueueRange
    archive: str
    log: int
    compression: str


@dataclass(frozen=True, slots=True)
class WrittenPiece:
    """`lost` was trimmed while the piece was being read."""

    files: list[ArchivedFile]
    lost: list[Range]


def write_piece(piece: ArchivePiece) -> WrittenPiece:
    """The files are durable when this returns, and belong to the archive once they are in its manifest. Done again, the
    same files are written."""
    source = piece.source
    files: list[ArchivedFile] = []
    with closing(QueueTable.open(Path(source.directory), source.queue, source.namespace)) as table:
        reading = table.read(source.partition, source.start, source.stop, COLUMNS, skip_trimmed=True)
        for day, batches in groupby(_by_day(reading), key=itemgetter(0)):
            files.append(_written(piece, day, (batch for _, batch in batches)))
        return WrittenPiece(files, [Range(*skipped) for skipped in reading.skipped])


def _by_day(reading: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows with the number of their day: times never fall, so that those of a day are neighbours."""
    for batch in reading:
        days = pc.divide(batch.column("timestamp").cast(pa.int64()), _DAY_US)
        ends = pc.run_end_encode(days, run_end_type=pa.int64())
        start = 0
        for end, day in zip(ends.run_ends.to_pylist(), ends.values.to_pylist(), strict=True):
            yield day, batch.slice(start, end - start)
            start = end


def _written(piece: ArchivePiece, day: int, batches: Iterator[pa.RecordBatch]) -> ArchivedFile:
    source, date = piece.source, datetime.fromtimestamp(day * _DAY_US / 1e6, UTC).date().isoformat()
    head = next(batches)
    first = head.column("offset")[0].as_py()
    folder = f"queue={quote(source.queue, safe='')}/date={date}/partition={source.partition}"
    place = f"{folder}/{piece.log}-{first:020d}.parquet"
    path = Path(piece.archive) / place
    rows, last = 0, head.slice(0, 1)
    with appearing(path) as unfinished, _writer(unfinished, head.schema, piece.compression) as writer:
        for group in _groups(chain([head], batches)):
            writer.write_table(group, row_group_size=max(1, group.num_rows))
            rows += group.num_rows
            last = group.slice(group.num_rows - 1)
    end = last.column("offset")[0].as_py() + 1
    size_bytes, digest = _size_and_digest(path)
    facts = source.queue, source.partition, piece.log, date, first, end, rows, size_bytes, digest
    return ArchivedFile(place, *facts, _ms(head), _ms(last))


def _writer(path: Path, schema: pa.Schema, compression: str) -> pq.ParquetWriter:
    return pq.ParquetWriter(path, schema, compression=compression, use_dictionary=["topic", "key"])


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        held.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows >= _GROUP_ROWS or size_bytes >= _GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size_bytes = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _size_and_digest(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()


def _ms(row: pa.RecordBatch | pa.Table) -> int:
    """The time of its first row."""
    us: int = row.column("timestamp")[0].cast(pa.int64()).as_py()
    return us // 1000
