"""The last row of each key of one partition, as a Parquet file; and which of several, where a key has moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.jobs.files import appearing
from penstock.jobs.last_rows import KEY_COLUMNS, LastRows, PickedRows, homes
from penstock.jobs.ranges import QueueRange
from penstock.tables.schema import SCHEMA
from penstock.tables.table import QueueTable

COLUMNS = tuple(SCHEMA.names)
_GROUP_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class SnapshotPiece:
    """One partition; `partitions` is how many the queue has."""

    source: QueueRange
    partitions: int
    place: str
    """the directory of what is not finished yet"""
    compression: str

    @property
    def path(self) -> Path:
        return part_path(Path(self.place), self.source.partition)


class WrittenPart(msgspec.Struct, frozen=True):
    partition: int
    rows: int
    keys: int
    """with those whose last row is a tombstone"""
    unkeyed: int
    strays: tuple[int, ...] = ()
    """partitions that keys found here belong to by now"""
    lost: tuple[tuple[int, int], ...] = ()
    """offsets that were trimmed meanwhile"""


def part_path(place: Path, partition: int) -> Path:
    return place / f"part-{partition:05d}.parquet"


def stray_path(place: Path, home: int, partition: int) -> Path:
    return place / f"strays-{home:05d}-{partition:05d}.arrow"


def losers_path(place: Path, home: int) -> Path:
    return place / f"losers-{home:05d}.arrow"


def write_part(piece: SnapshotPiece) -> WrittenPart:
    """All keys that have a row here, also those that belong elsewhere by now: these are told, and decided later."""
    source = piece.source
    with closing(QueueTable.open(Path(source.directory), source.queue, source.namespace)) as table:
        found = LastRows()
        lost = _read_keys(table, source, found)
        last = found.result()
        strays = _write_strays(piece, last)
        rows = _write_rows(piece, table, PickedRows(last.column("offset")))
    return WrittenPart(source.partition, rows, last.num_rows, found.unkeyed, strays, lost)


def _read_keys(table: QueueTable, source: QueueRange, found: LastRows) -> tuple[tuple[int, int], ...]:
    reading = table.read(source.partition, source.start, source.stop, KEY_COLUMNS, skip_trimmed=True)
    for batch in reading:
        found.take(batch)
    return tuple(reading.skipped)


def _write_strays(piece: SnapshotPiece, last: pa.Table) -> tuple[int, ...]:
    """Keys of other partitions, a file for each of these."""
    here = piece.source.partition
    places = homes(last, piece.partitions)
    is_stray = pc.not_equal(places, here)
    if not pc.any(is_stray).as_py():
        return ()
    strays, places = last.filter(is_stray), places.filter(is_stray)
    found = sorted(pc.unique(places).to_pylist())
    for home in found:
        mine = strays.filter(pc.equal(places, home))
        numbered = mine.append_column("partition", pa.repeat(pa.scalar(here, pa.int32()), mine.num_rows))
        _write_arrow(stray_path(Path(piece.place), home, here), numbered)
    return tuple(found)


def _write_rows(piece: SnapshotPiece, table: QueueTable, picked: PickedRows) -> int:
    """Whole rows, without tombstones; how many."""
    schema, rows = SCHEMA, 0
    with appearing(piece.path) as path, _writer(path, schema, piece.compression) as writer:
        for group in _groups(_rows(piece.source, table, picked)):
            writer.write_table(group, row_group_size=_GROUP_ROWS)
            rows += group.num_rows
    return rows


def _rows(source: QueueRange, table: QueueTable, picked: PickedRows) -> Iterator[pa.RecordBatch]:
    for start, stop in picked.ranges():
        reading = table.read(source.partition, start, stop, COLUMNS, skip_trimmed=True)
        for batch in picked.among(reading):
            yield batch.filter(pc.greater(pc.binary_length(batch.column("value")), 0))


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _GROUP_ROWS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _writer(path: Path, schema: pa.Schema, compression: str) -> pq.ParquetWriter:
    return pq.ParquetWriter(path, schema, compression=compression, use_dictionary=["topic", "queue", "partition"])


@dataclass(frozen=True, slots=True)
class ContestPiece:
    """Keys that belong to one partition and were found in others."""

    source: QueueRange
    place: str
    found_in: tuple[int, ...]

    @property
    def home(self) -> int:
        return self.source.partition


def decide_contest(piece: ContestPiece) -> int:
    """Of each of these keys, the youngest row of all partitions stays; the others are written down, to be left out. How
    many there are. Of rows of the same millisecond that of the key's own partition is younger: it went there last."""
    strays = pa.concat_tables(_read_arrow(stray_path(Path(piece.place), piece.home, each)) for each in piece.found_in)
    entries = pa.concat_tables([strays, _at_home(piece, strays)])
    is_home = pc.equal(entries.column("partition"), piece.home).cast(pa.int8())
    ranked = entries.append_column("is_home", is_home).sort_by(
        [("timestamp", "descending"), ("is_home", "descending"), ("partition", "descending"), ("offset", "descending")]
    )
    ranked = ranked.append_column("rank", pa.array(range(ranked.num_rows), pa.int64()))
    first = ranked.group_by("key", use_threads=False).aggregate([("rank", "min")]).column("rank_min")
    losers: pa.Table = ranked.filter(pc.invert(pc.is_in(ranked.column("rank"), value_set=first.combine_chunks())))
    _write_arrow(losers_path(Path(piece.place), piece.home), losers.select(["partition", "offset"]))
    count: int = losers.num_rows
    return count


def _at_home(piece: ContestPiece, strays: pa.Table) -> pa.Table:
    """What their own partition has of the same keys."""
    source, found = piece.source, LastRows()
    with closing(QueueTable.open(Path(source.directory), source.queue, source.namespace)) as table:
        _read_keys(table, source, found)
    last = found.result()
    last = last.filter(pc.is_in(last.column("key"), value_set=pc.unique(strays.column("key"))))
    return last.append_column("partition", pa.repeat(pa.scalar(piece.home, pa.int32()), last.num_rows))


@dataclass(frozen=True, slots=True)
class SiftPiece:
    """A part, and the partitions whose contests may have decided against rows of it."""

    place: str
    partition: int
    homes: tuple[int, ...]
    compression: str


def sift_part(piece: SiftPiece) -> int:
    """Write the part anew without what lost; how many rows it has then."""
    place = Path(piece.place)
    losers = pa.concat_tables(_read_arrow(losers_path(place, home)) for home in piece.homes)
    gone = PickedRows(losers.filter(pc.equal(losers.column("partition"), piece.partition)).column("offset"))
    path = part_path(place, piece.partition)
    rows = 0
    with pq.ParquetFile(path) as part, appearing(path) as new, _writer(new, SCHEMA, piece.compression) as writer:
        for batch in gone.except_among(part.iter_batches(_GROUP_ROWS)):
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _write_arrow(path: Path, table: pa.Table) -> None:
    with (
        appearing(path) as unfinished,
        pa.OSFile(str(unfinished), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)


def _read_arrow(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()
