"""The header of a batch, checked in itself: the columns behind it may be missing. log/FORMAT.md describes it."""

from __future__ import annotations

from penstock.core.errors import CorruptBatch
from penstock.core.ports import Buffer
from penstock.kernels import memory


def check(data: Buffer, position: int) -> int:
    """Bytes of the batch whose header is at a position, which need not be there; CorruptBatch if it is no header. The
    checksum is not looked at."""
    if position < 0 or len(data) - position < 64:
        raise CorruptBatch("it is shorter than a header", position)
    if memory.load_u32(data, position) != _MAGIC:
        raise CorruptBatch("it does not begin with PSTB", position)
    word = memory.load_u32(data, position + 28)
    if word >> 24 != 1:
        raise CorruptBatch(f"version {word >> 24} is not known", position)
    flags = word & 0xFFFF
    if flags > 0xFF or memory.load_u32(data, position + 56) >> 16:
        raise CorruptBatch(f"flags {flags:#x} or reserved bits are not known", position)
    if (word >> 16 & 0xFF) > 2:
        raise CorruptBatch(f"compression {word >> 16 & 0xFF} is not known", position)
    body_bytes = memory.load_u32(data, position + 16)
    if body_bytes & 7 or body_bytes > _MAX_BODY_BYTES:
        raise CorruptBatch(f"a body of {body_bytes} bytes is not possible", position)
    count = memory.load_u32(data, position + 20)
    if not flags or count > _MAX_BODY_BYTES // 4:
        raise CorruptBatch(f"{count} records with flags {flags:#x} are not possible", position)
    if not count and not flags & 2:
        raise CorruptBatch("it has no records", position)
    _check_range(data, position)
    return 64 + body_bytes


def check_whole(data: Buffer) -> int:
    """check() of exactly one batch."""
    total_bytes = check(data, 0)
    if total_bytes != len(data):
        raise CorruptBatch(f"it claims {total_bytes} bytes and has {len(data)}")
    return total_bytes


def _check_range(data: Buffer, position: int) -> int:
    base_offset = memory.load_i64(data, position + 8)
    base_timestamp = memory.load_i64(data, position + 32)
    # As int64, offsets from 2**63 on are negative.
    if base_offset < 0 or base_offset > _MAX_BASE_OFFSET or base_timestamp < 0:
        raise CorruptBatch("its offset or timestamps are out of range", position)
    if memory.load_i64(data, position + 40) < base_timestamp:
        raise CorruptBatch("its offset or timestamps are out of range", position)
    return 0


# Named, because Cython takes a literal above 2**31 for a Python object. log/header.py says why these.
_MAGIC = int.from_bytes(b"PSTB", "little")
_MAX_BODY_BYTES = 16 << 20
_MAX_BASE_OFFSET = (1 << 63) - (1 << 32)
