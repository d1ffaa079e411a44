"""Two clocks: one that runs and never jumps, for everything that waits in memory, and the wall clock, for all that is
stored or shown. Here the second is watched by the first."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from penstock.core.ports import Clock

logger = logging.getLogger("penstock.clock")

# A clock that is slewed, as NTP does it, is off by less between two looks.
JUMP_MS = 1000
# Of those that are remembered.
_MOST_PIECES = 32
_EVER = 1 << 62


class _Piece(NamedTuple):
    """From one jump to the next. Stamps made in it are low..high; a log never stamps below its last one, so `high` is
    that of the pieces before, too."""

    since: int
    """running time"""
    shift: int
    """wall clock minus running time"""
    low: int
    high: int


class Timeline:
    """Running time in ms: the wall clock as it would be, had nobody set it since the timeline began. look() belongs to
    one thread, the rest to any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._origin_ms = clock.now_ms() - round(1000 * clock.monotonic())
        self._looked_ms = self.now()
        self.shift = 0
        """wall clock minus running time, at the last look"""
        self.jumps = 0
        self._pieces: tuple[_Piece, ...] = (_Piece(-_EVER, 0, -_EVER, _EVER),)
        self._watchers: list[Callable[[], None]] = []

    def now(self) -> int:
        return self._origin_ms + round(1000 * self._clock.monotonic())

    def wall(self) -> int:
        return self._clock.now_ms()

    def watch(self, call: Callable[[], None]) -> None:
        """`call` after each jump: times that are stored have to be stored anew."""
        self._watchers.append(call)

    def look(self) -> None:
        """At least every second: whether the wall clock was set."""
        now, wall = self.now(), self.wall()
        waited, self._looked_ms = now - self._looked_ms, now
        before, self.shift = self.shift, wall - now
        if abs(self.shift - before) < JUMP_MS:
            return
        self.jumps += 1
        last = self._pieces[-1]
        high = max([now + before, *[piece.high for piece in self._pieces[:-1]]])
        # When it was since the last look, nobody knows.
        begun = _Piece(now - waited, self.shift, min(wall - waited, wall), _EVER)
        self._pieces = (*self._pieces[:-1], last._replace(shift=before, high=high), begun)[-_MOST_PIECES:]
        logger.warning(
            "wall clock was set by_s=%+.1f: what runs goes on as if it had not been, what is stored follows it",
            (self.shift - before) / 1000,
        )
        for call in self._watchers:
            call()

    def now_at(self, stamp: int, now: int | None = None) -> int:
        """What the time is now, or at that running time, by the wall clock that a stamp was taken from: what is due by
        it is due as long after it as it was meant to be. Where that clock is in doubt, later rather than too early."""
        pieces, now = self._pieces, self.now() if now is None else now
        if len(pieces) == 1:
            return now + self.shift
        shifts = [piece.shift for piece in pieces[:-1] if piece.low <= stamp <= piece.high]
        if pieces[-1].low <= stamp:
            shifts.append(self.shift)
        if not shifts or stamp > now + self.shift:
            # No clock of this process has said so: its log has stamps of one that was ahead.
            shifts = [self.shift, *[piece.shift for piece in pieces[:-1]]]
        return now + min(shifts)

    def later(self, stamp: int) -> int:
        """What a time by the clock that a stamp was taken from needs more to be one by the wall clock of now: for what
        is stored again, with another stamp."""
        return 0 if len(self._pieces) == 1 else self.shift + self.now() - self.now_at(stamp)

    def stamped_by(self, time: int) -> int:
        """A wall time: what is stamped with it or with less was stamped at that running time or before."""
        pieces, stamp = self._pieces, time + self.shift
        if len(pieces) == 1 or time >= pieces[-1].since:
            return stamp
        lows = [pieces[-1].low - 1]
        for piece in reversed(pieces[:-1]):
            if time >= piece.since:
                return min(time + piece.shift, *lows)
            lows.append(piece.low - 1)
        return min(lows)
