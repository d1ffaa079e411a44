"""When a failed message comes again, and when it has failed for good.

Delays are exactly those of the documented formula, without jitter: what fails together comes again together, and the
consumers' bounds on what is in flight spread it."""

from __future__ import annotations

from array import array
from functools import lru_cache

from penstock.core.errors import InvalidArgument

# Of at most 80 KB: most queues have the same policy.
_KNOWN_TABLES = 64
MAX_RETRIES = 65535
"""A table costs 8 bytes a retry, and windows count failures in 16 bits."""
MAX_DELAY_MS = 36_500 * 24 * 3600 * 1000
"""The longest duration that settings take: added to any time it stays far inside 64 bits."""


@lru_cache(_KNOWN_TABLES)
def backoff_table(initial_ms: int, max_ms: int, multiplier: float, max_retries: int) -> array[int]:
    """How long a message waits after failure 1, 2, … max_retries ('q'): initial_ms, then each time `multiplier` times
    as long, in whole ms, never over max_ms. Not to be changed: queues share it."""
    if not 0 <= initial_ms <= max_ms <= MAX_DELAY_MS:
        raise InvalidArgument(f"a backoff from {initial_ms} to {max_ms} ms does not rise inside 0..{MAX_DELAY_MS}")
    if not 1 <= multiplier < float("inf"):
        raise InvalidArgument(f"a backoff multiplier is at least 1, not {multiplier}")
    if not 0 <= max_retries <= MAX_RETRIES:
        raise InvalidArgument(f"max_retries {max_retries} is outside 0..{MAX_RETRIES}")
    table, delay_ms = array("q"), float(initial_ms)
    for _ in range(max_retries):
        table.append(round(delay_ms))
        delay_ms = min(delay_ms * multiplier, float(max_ms))
    return table


@lru_cache(maxsize=8)
def endless_table(initial_ms: int, max_ms: int, multiplier: float) -> array[int]:
    """For messages that never fail for good: no count of failures goes beyond it. 512 KiB, shared."""
    return backoff_table(initial_ms, max_ms, multiplier, MAX_RETRIES)
