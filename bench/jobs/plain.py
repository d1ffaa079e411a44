"""The same work as a script would do it that somebody writes for the occasion: one process, no plan, no resuming."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.kernels.crc import crc32c
from penstock.tables.table import QueueTable

_HEADER = struct.Struct("<4sIQIIIHBBqqQHHI")
_CRC_FROM = 8


def audit(directory: Path) -> int:
    """Records, after checksums and the order of offsets and times of every batch of every file."""
    records = 0
    for folder in sorted({path.parent for path in directory.rglob("*.seg")}):
        following, latest_ms = -1, 0
        for path in sorted(folder.glob("*.seg")):
            data = memoryview(path.read_bytes())
            position = 0
            while position < len(data):
                _, crc, offset, size, count, _, _, _, _, first_ms, last_ms, *_ = _HEADER.unpack_from(data, position)
                end = position + _HEADER.size + size
                if crc32c(data[position:end], 0, _CRC_FROM) != crc or first_ms < latest_ms:
                    raise ValueError(f"{path}, byte {position}")
                if following >= 0 and offset != following:
                    raise ValueError(f"{path}: offset {offset} behind {following}")
                position, following, latest_ms, records = end, offset + count, last_ms, records + count
    return records


def snapshot(directory: Path, queue: str, target: Path) -> int:
    """Keys, after the last value of each was written to one file."""
    last: dict[bytes, tuple[bytes, int]] = {}
    table = QueueTable.open(directory, queue)
    for partition in table.partitions():
        for batch in table.read(partition.number, columns=("key", "value", "offset")):
            keys, values, offsets = (column.to_pylist() for column in batch.columns)
            last.update(zip(keys, zip(values, offsets, strict=True), strict=True))
    table.close()
    kept = {key: row for key, row in last.items() if row[0]}
    values, offsets = zip(*kept.values(), strict=True)
    pq.write_table(pa.table({"key": list(kept), "value": values, "offset": offsets}), target, compression="zstd")
    return len(kept)
