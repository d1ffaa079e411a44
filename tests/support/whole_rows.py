"""Values that say who wrote them and as which, and show whether they are whole."""

from __future__ import annotations

import zlib

_CHECK_BYTES = 8
_FILLER = bytes(range(256)) * 8


def whole_value(writer: str, number: int, size_bytes: int = 64) -> bytes:
    """Of 64 to 1,024 bytes."""
    said = f"{writer}:{number}:".encode()
    at = number & 0xFF
    body = said + _FILLER[at : at + size_bytes - len(said) - _CHECK_BYTES]
    return body + b"%08x" % zlib.crc32(body)


def who_and_which(value: bytes) -> tuple[str, int]:
    """AssertionError unless the value is as it was written."""
    body, check = value[:-_CHECK_BYTES], value[-_CHECK_BYTES:]
    assert check == b"%08x" % zlib.crc32(body), f"torn: {value[:40]!r}"
    writer, number, _ = body.split(b":", 2)
    return writer.decode(), int(number)
