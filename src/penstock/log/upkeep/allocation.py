"""What the C library does with memory that is free again."""

from __future__ import annotations

import ctypes
import os
import sys

# Of <malloc.h>.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# As much as the keeper lets go of at a time, some times over.
_KEPT_BYTES = 8 << 20
# Batches lie below it; what is larger has a mapping of its own and goes back whole.
_MAPPED_BYTES = 2 << 20
_SET_BY_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Have malloc keep up to 8 MiB at the end of its heap for what comes next, for the whole process. By default it
    gives back 128 KiB and more, and the first touch of each page costs 2 us again: 70 us for a batch of 500 messages.
    False, and nothing changed, without glibc or where the environment says how malloc is to behave."""
    if sys.platform != "linux" or any(name in os.environ for name in _SET_BY_USER):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)) and bool(mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES))


def give_back_freed_memory() -> None:
    """What lies free between what is in use, too. Nothing without glibc."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
