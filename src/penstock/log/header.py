"""The 64 bytes before the columns of a batch. FORMAT.md has the layout."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from penstock.core.errors import CorruptBatch
from penstock.core.ports import Buffer
from penstock.core.types import Compression

HEADER_BYTES = 64
MAGIC = b"PSTB"
VERSION = 1

# A batch travels in one frame of at most 16 MiB, so a greater body could never be committed.
MAX_BODY_BYTES = 16 << 20

# Offsets are int64; a batch spans less than 2**31 of them, so a base this low cannot overflow.
MAX_BASE_OFFSET = (1 << 63) - (1 << 32)

TIMESTAMP_DELTA, OFFSET_DELTA, EXPIRY, TOPIC, KEY, PROPERTIES, NATIVE, VALUE = (1 << bit for bit in range(8))
KNOWN_FLAGS = 0xFF

CRC_AT, CRC_FROM = 4, 8
"""where the checksum is, and where the bytes it covers begin"""

HEADER = Struct("<4sIQIIIHBBqqQHHI")
_COMPRESSIONS = frozenset(int(compression) for compression in Compression)


class Header(NamedTuple):
    base_offset: int
    body_bytes: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks of a header
    epoch: int
    flags: int
    compression: int
    version: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int

    @property
    def total_bytes(self) -> int:
        return HEADER_BYTES + self.body_bytes


def read_header(data: Buffer, position: int = 0) -> Header:
    """The header at a position, checked in itself: the body may be missing and the checksum is not looked at."""
    if position < 0 or len(data) - position < HEADER_BYTES:
        raise CorruptBatch("it is shorter than a header", position)
    fields = HEADER.unpack_from(data, position)
    if fields[0] != MAGIC:
        raise CorruptBatch("it does not begin with PSTB", position)
    header = Header._make(fields[2:13] + fields[14:])
    if reason := _header_fault(header, fields[13]):
        raise CorruptBatch(reason, position)
    return header


def _header_fault(header: Header, reserved: int) -> str | None:
    if header.version != VERSION:
        return f"version {header.version} is not known"
    if header.flags & ~KNOWN_FLAGS or reserved:
        return f"flags {header.flags:#x} or reserved bits are not known"
    if header.compression not in _COMPRESSIONS:
        return f"compression {header.compression} is not known"
    if header.body_bytes % 8 or header.body_bytes > MAX_BODY_BYTES:
        return f"a body of {header.body_bytes} bytes is not possible"
    if not header.flags or header.count > MAX_BODY_BYTES // 4:
        return f"{header.count} records with flags {header.flags:#x} are not possible"
    if not header.count and not header.flags & OFFSET_DELTA:
        return "it has no records"
    if header.base_offset > MAX_BASE_OFFSET or not 0 <= header.base_timestamp <= header.max_timestamp:
        return "its offset or timestamps are out of range"
    return None
