"""The compressed form of a batch's body: uncompressed length, compressed length, bytes, zeros to a multiple of 8."""

from __future__ import annotations

from struct import Struct

import cramjam

from penstock.core.errors import CorruptBatch
from penstock.core.ports import Buffer
from penstock.core.types import Compression
from penstock.log.header import BODY_BYTES_AT, COMPRESSION_AT, HEADER_BYTES

_LENGTHS = Struct("<II")
_UINT32 = Struct("<I")


def compressed(batch: bytearray, compression: Compression) -> bytearray:
    """The batch with its body compressed; as it is where that saves less than an eighth of the body."""
    body = memoryview(batch)[HEADER_BYTES:]
    packed = _pack(body, compression)
    stored_bytes = (_LENGTHS.size + len(packed) + 7) & -8
    if stored_bytes > len(body) - len(body) // 8:
        return batch
    out = bytearray(HEADER_BYTES + stored_bytes)
    out[:HEADER_BYTES] = memoryview(batch)[:HEADER_BYTES]
    _UINT32.pack_into(out, BODY_BYTES_AT, stored_bytes)
    out[COMPRESSION_AT] = compression
    _LENGTHS.pack_into(out, HEADER_BYTES, len(body), len(packed))
    first = HEADER_BYTES + _LENGTHS.size
    out[first : first + len(packed)] = packed
    return out


def decompress(stored: memoryview, compression: Compression, limit_bytes: int) -> memoryview:
    """The body again; its claimed length is held against the limit before anything is allocated."""
    if len(stored) < _LENGTHS.size:
        raise CorruptBatch("a compressed body is shorter than its lengths")
    body_bytes, packed_bytes = _LENGTHS.unpack_from(stored)
    if (_LENGTHS.size + packed_bytes + 7) & -8 != len(stored) or body_bytes > limit_bytes or body_bytes % 8:
        raise CorruptBatch("the lengths of a compressed body are not possible")
    body = bytearray(body_bytes)
    try:
        filled = _unpack(stored[_LENGTHS.size : _LENGTHS.size + packed_bytes], compression, body)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"the body cannot be decompressed: {error}") from error
    if filled != body_bytes:
        raise CorruptBatch("the body decompresses to another length than it claims")
    return memoryview(body)


def _pack(body: memoryview, compression: Compression) -> Buffer:
    if compression is Compression.LZ4:
        return memoryview(cramjam.lz4.compress_block(body, store_size=False))
    return memoryview(cramjam.zstd.compress(body, level=1))


def _unpack(packed: memoryview, compression: Compression, out: bytearray) -> int:
    if compression is Compression.LZ4:
        return int(cramjam.lz4.decompress_block_into(packed, out, output_len=len(out)))
    return int(cramjam.zstd.decompress_into(packed, out))
