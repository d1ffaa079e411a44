"""Sizes and durations as people write them: `64MiB`, `200ms`, `24h`."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from penstock.core.errors import InvalidArgument

_DECIMAL_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZES = {**_DECIMAL_SIZES, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
# 18 digits hold every size and duration that is meant, and keep the result inside a float and a file offset's reach.
_NUMBER = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-zA-Z]*)\s*")


_TEXT_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_TEXT_SIZES = {1 << 40: "TiB", 1 << 30: "GiB", 1 << 20: "MiB", 1 << 10: "KiB"}


@lru_cache(1024)
def parse_size(text: str) -> int:
    """Bytes. `64MiB` is 67108864, `64MB` is 64000000, `64` is 64; a fraction of a byte is cut."""
    match = _NUMBER.fullmatch(text)
    if match is None or match[2].lower() not in _SIZES:
        raise InvalidArgument(f"{text!r} is not a size: write it like 512KiB, 64MiB or 1GB")
    return int(Fraction(match[1]) * _SIZES[match[2].lower()])


@lru_cache(1024)
def parse_duration(text: str) -> float:
    """Seconds. `1h30m` is 5400; a number needs its unit."""
    if not text.strip():
        raise InvalidArgument("a duration is missing: write it like 200ms, 30s, 5m, 24h or 7d")
    total_ms, position = Fraction(0), 0
    while position < len(text):
        match = _NUMBER.match(text, position)
        if match is None or match[2].lower() not in _MILLISECONDS:
            raise InvalidArgument(f"{text!r} is not a duration: write it like 200ms, 30s, 5m, 24h, 7d or 1h30m")
        total_ms += Fraction(match[1]) * _MILLISECONDS[match[2].lower()]
        position = match.end()
    return float(total_ms / 1000)


def duration_text(duration_ms: int) -> str:
    """In the largest unit that divides it: 90000 is `90s`, 7200000 is `2h`."""
    units = _TEXT_UNITS_MS.items()
    unit = next((unit for unit, size_ms in units if duration_ms and duration_ms % size_ms == 0), "s")
    return f"{duration_ms // _TEXT_UNITS_MS[unit]}{unit}"


def size_text(size_bytes: int) -> str:
    """In the largest unit that divides it: 65536 is `64KiB`, 1000 is `1000`."""
    unit = next((unit for unit in _TEXT_SIZES if size_bytes and size_bytes % unit == 0), 1)
    return f"{size_bytes // unit}{_TEXT_SIZES.get(unit, '')}"
