"""The 64 bytes before the columns of a batch. FORMAT.md has the layout."""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import NamedTuple

from penstock.core.ports import Buffer
from penstock.kernels import header as kernel

HEADER_BYTES = 64
MAGIC = b"PSTB"
VERSION = 1

# A batch travels in one frame of at most 16 MiB, so a greater body could never be committed.
MAX_BODY_BYTES = 16 << 20

# Offsets are int64; a batch spans less than 2**31 of them, so a base this low cannot overflow.
MAX_BASE_OFFSET = (1 << 63) - (1 << 32)

TIMESTAMP_DELTA, OFFSET_DELTA, EXPIRY, TOPIC, KEY, PROPERTIES, NATIVE, VALUE = (1 << bit for bit in range(8))

CRC_AT, CRC_FROM = 4, 8
"""where the checksum is, and where the bytes it covers begin"""

BODY_BYTES_AT, FLAGS_AT, COMPRESSION_AT = 16, 28, 30

HEADER = Struct("<4sIQIIIHBBqqQHHI")
_FIELDS = Struct("<8xQIIIHBBqqQH2xI")
"""HEADER without magic, checksum and reserved bits"""


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


# Header._make() without the look at the number of fields, which the format has.
_header = partial(tuple.__new__, Header)


def read_header(data: Buffer, position: int = 0) -> Header:
    """The header at a position, checked in itself: the body may be missing and the checksum is not looked at."""
    kernel.check(data, position)
    return _header(_FIELDS.unpack_from(data, position))


def read_whole(data: Buffer) -> Header:
    """The header of exactly one batch."""
    kernel.check_whole(data)
    return _header(_FIELDS.unpack_from(data))
