from __future__ import annotations

import struct
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import both, builds

from penstock.core.errors import CorruptBatch
from penstock.core.types import Compression
from penstock.log.header import HEADER, MAGIC, MAX_BASE_OFFSET, MAX_BODY_BYTES, OFFSET_DELTA, VALUE

GOOD = (MAGIC, 0, 50, 8, 1, 3, VALUE, 0, 1, 1000, 1000, 7, 2, 0, 9)
NAMES = ("magic", "crc", "base", "body", "count", "epoch", "flags", "compression", "version", "first_ms", "last_ms")


def head(**changes: int | bytes) -> bytes:
    fields = dict(zip((*NAMES, "producer", "producer_epoch", "reserved", "sequence"), GOOD, strict=True)) | changes
    return HEADER.pack(*fields.values())


def verdict(kernel: ModuleType, data: bytes, position: int = 0) -> int | tuple[str, int]:
    """Bytes of the batch, or the fault and its place."""
    try:
        return int(kernel.check(data, position))
    except CorruptBatch as fault:
        return fault.reason, fault.position


@pytest.mark.parametrize("kernel", builds("header"))
def test_a_header_tells_the_size_of_its_batch(kernel: ModuleType) -> None:
    assert verdict(kernel, head()) == 72
    assert verdict(kernel, bytes(24) + head(), 24) == 72
    assert verdict(kernel, head(body=MAX_BODY_BYTES, base=MAX_BASE_OFFSET, last_ms=2**63 - 1)) == 64 + MAX_BODY_BYTES
    assert verdict(kernel, head(count=0, flags=VALUE | OFFSET_DELTA)) == 72
    assert all(verdict(kernel, head(compression=int(known))) == 72 for known in Compression)


BAD: dict[str, dict[str, int | bytes]] = {
    "magic": {"magic": b"PSTF"},
    "version": {"version": 2},
    "flags": {"flags": VALUE | 256},
    "reserved": {"reserved": 1},
    "compression": {"compression": max(Compression) + 1},
    "body not padded": {"body": 12},
    "body too large": {"body": MAX_BODY_BYTES + 8},
    "no columns": {"flags": 0},
    "more records than fit": {"count": MAX_BODY_BYTES // 4 + 1},
    "no records": {"count": 0},
    "offset too large": {"base": MAX_BASE_OFFSET + 1},
    "offset beyond int64": {"base": 2**63},
    "negative timestamp": {"first_ms": -1},
    "timestamps going back": {"last_ms": 999},
}


@pytest.mark.parametrize("kernel", builds("header"))
@pytest.mark.parametrize("name", BAD)
def test_an_impossible_header_is_refused(kernel: ModuleType, name: str) -> None:
    assert isinstance(verdict(kernel, head(**BAD[name])), tuple)


@pytest.mark.parametrize("kernel", builds("header"))
@pytest.mark.parametrize("position", [-1, 1, 64, 2**40])
def test_a_header_that_is_cut_off_is_refused(kernel: ModuleType, position: int) -> None:
    assert verdict(kernel, head(), position) == ("it is shorter than a header", position)


@pytest.mark.parametrize("kernel", builds("header"))
@pytest.mark.parametrize("extra", [-8, -1, 1, 8])
def test_a_whole_batch_has_the_bytes_it_claims(kernel: ModuleType, extra: int) -> None:
    assert kernel.check_whole(head() + bytes(8)) == 72
    with pytest.raises(CorruptBatch, match="claims 72 bytes"):
        kernel.check_whole(head() + bytes(8 + extra))


@given(place=st.integers(0, 60), word=st.integers(0, 2**32 - 1), kept=st.integers(0, 32))
@settings(max_examples=200, deadline=None)
def test_both_builds_say_the_same_of_changed_headers(place: int, word: int, kept: int) -> None:
    pure, compiled = both("header")
    data = bytearray(head())
    struct.pack_into("<I", data, place, word >> kept)
    assert verdict(pure, bytes(data)) == verdict(compiled, bytes(data))
