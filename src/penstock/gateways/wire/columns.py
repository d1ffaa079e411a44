"""Memory that does not move and costs nothing until it is touched: columns by slot, and the arena."""

from __future__ import annotations

import mmap
import sys
from array import array
from collections.abc import Sequence
from typing import Literal

from penstock.core.errors import InvalidArgument

Typecode = Literal["i", "q"]
"""int32 or int64"""
WIDTHS = {"i": 4, "q": 8}


def zeros(typecode: Literal["i", "q", "B"], count: int) -> memoryview:
    made = mmap.mmap(-1, count * WIDTHS.get(typecode, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if typecode != "B" and sys.platform == "linux":
        made.madvise(mmap.MADV_NOHUGEPAGE)  # which would cost more than all columns of a thousand connections
    return memoryview(made).cast(typecode)


def width(typecode: str) -> int:
    if typecode not in WIDTHS:
        raise InvalidArgument(f"columns are of 'i' (int32) or 'q' (int64), not of {typecode!r}")
    return WIDTHS[typecode]


def pick(column: memoryview, slots: Sequence[int]) -> array[int]:
    width(column.format)
    return array(column.format, [column[slot] for slot in slots])
