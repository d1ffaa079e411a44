"""A clock that goes only where a test sends it."""

from __future__ import annotations

from penstock.core.types import TimestampMs


class FakeClock:
    """`core.ports.Clock`. The two times are set apart: wall time may jump, the monotonic one never goes back."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self.wall_ms, self.seconds = wall_ms, 0.0

    def now_ms(self) -> TimestampMs:
        return TimestampMs(self.wall_ms)

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.wall_ms += int(seconds * 1000)
        self.seconds += seconds
