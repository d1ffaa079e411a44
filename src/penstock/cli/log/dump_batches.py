"""The batches of a log's segment files, read as bytes that may be damaged."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from penstock.cli.log.view import DirectoryView, LogSummary
from penstock.cli.log.window import Window
from penstock.core.errors import CorruptBatch
from penstock.core.ports import File
from penstock.core.types import Compression, FilePosition
from penstock.log.batch import Batch, check_crc
from penstock.log.header import (
    EXPIRY,
    HEADER_BYTES,
    KEY,
    NATIVE,
    OFFSET_DELTA,
    PROPERTIES,
    TIMESTAMP_DELTA,
    TOPIC,
    VALUE,
    Header,
    read_header,
)

_FLAG_NAMES = {
    TIMESTAMP_DELTA: "timestamps",
    OFFSET_DELTA: "offsets",
    EXPIRY: "expiry",
    TOPIC: "topic",
    KEY: "key",
    PROPERTIES: "properties",
    NATIVE: "native",
    VALUE: "value",
}


class DamageLine(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes from here on that are no batch at all."""

    log: str
    file: str
    position: int
    problem: str


class BatchLine(msgspec.Struct, frozen=True, kw_only=True):
    """What the header of one batch says; `problem` where its body does not hold what that promises."""

    log: str
    file: str
    position: int
    bytes: int
    base_offset: int
    next_offset: int
    records: int
    epoch: int
    columns: tuple[str, ...]
    compression: str
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    crc_ok: bool
    problem: str | None


def batch_lines(view: DirectoryView, log: LogSummary, window: Window) -> Iterator[BatchLine | DamageLine]:
    """In the order of the log. Segments that lie outside the window are not opened."""
    for path, info in view.segments(log):
        if window.first is not None and info.end <= window.first:
            continue
        if window.ends_before(info.base, info.first_timestamp):
            return
        try:
            file = view.disk.open_read(path)
        except FileNotFoundError:
            yield DamageLine(log=log.name, file=path, position=0, problem="the file is missing")
            continue
        try:
            yield from _lines_of(file, log.name, path, info.bytes, window)
        finally:
            file.close()


def _lines_of(file: File, log: str, path: str, size: int, window: Window) -> Iterator[BatchLine | DamageLine]:
    position = 0
    while position < size:
        try:
            header = read_header(file.read(FilePosition(position), HEADER_BYTES))
        except CorruptBatch as error:
            yield DamageLine(log=log, file=path, position=position, problem=error.reason)
            return
        line = _line(file.read(FilePosition(position), header.total_bytes), header, log, path, position)
        if window.ends_before(header.base_offset, header.base_timestamp):
            return
        if _touches(window, line):
            yield line
        position += header.total_bytes


def _touches(window: Window, line: BatchLine) -> bool:
    is_before = window.first is not None and line.next_offset <= window.first
    is_older = window.since_ms is not None and line.max_timestamp < window.since_ms
    return not is_before and not is_older


def _line(data: bytes, header: Header, log: str, path: str, position: int) -> BatchLine:
    next_offset, crc_ok = header.base_offset + header.count, False
    problem: str | None = None
    try:
        check_crc(data)
        crc_ok = True
        next_offset = Batch.parse(data, verify=False).next_offset
    except CorruptBatch as error:
        problem = error.reason
    return BatchLine(
        log=log,
        file=path,
        position=position,
        bytes=header.total_bytes,
        base_offset=header.base_offset,
        next_offset=next_offset,
        records=header.count,
        epoch=header.epoch,
        columns=tuple(name for flag, name in _FLAG_NAMES.items() if header.flags & flag),
        compression=Compression(header.compression).name.lower(),
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        crc_ok=crc_ok,
        problem=problem,
    )
