"""The clock of a real process."""

from __future__ import annotations

import time

from penstock.core.types import TimestampMs

# Goes on while the machine sleeps, where there is such a clock.
_RUNNING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    def now_ms(self) -> TimestampMs:
        return TimestampMs(time.time_ns() // 1_000_000)

    def monotonic(self) -> float:
        return time.clock_gettime(_RUNNING)
