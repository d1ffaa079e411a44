"""The clock of a real process."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from penstock.core.types import TimestampMs

# Goes on while the machine sleeps, where there is such a clock.
_RUNNING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    def __init__(self) -> None:
        # Several times a commit: without a call of Python.
        self.monotonic: Callable[[], float] = partial(time.clock_gettime, _RUNNING)

    def now_ms(self) -> TimestampMs:
        return TimestampMs(time.time_ns() // 1_000_000)
