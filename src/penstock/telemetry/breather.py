"""Long work on the loop, in slices: between two of them everybody else has a turn."""

from __future__ import annotations

import asyncio
from time import monotonic

# A publish that waits for a slice to end hardly notices; the turn between two costs 20 us at the most.
_SLICE_S = 0.001


class Breather:
    """Pauses one piece of work for a turn of the loop, again and again."""

    def __init__(self, slice_s: float = _SLICE_S) -> None:
        self._slice_s, self._begun_s = slice_s, monotonic()

    async def turn(self) -> None:
        """To be called between two small steps: lets others run if the slice is over."""
        if monotonic() - self._begun_s >= self._slice_s:
            await asyncio.sleep(0)
            self._begun_s = monotonic()
