"""How much of the loop those may have who write to many."""

from __future__ import annotations

import asyncio
import time

# For each second of work so long a rest: what comes meanwhile goes out together.
_REST = 2.0
_LONGEST_REST_S = 0.25
# Not worth a timer.
_UNNOTICED_S = 0.0005


class LoopShare:
    """Of one who works in steps: at most a third of the loop's time goes to them. It is time of the processor that
    counts: on a machine with other work to do, waiting for its turn is no reason to rest."""

    def __init__(self) -> None:
        self._spent_s = 0.0
        self._begun_s = 0.0

    def begin(self) -> None:
        self._begun_s = time.thread_time()

    def pause(self) -> None:
        self._spent_s += time.thread_time() - self._begun_s

    async def rest(self) -> None:
        """As long as the work since the last rest asks for; one turn of the loop at least."""
        spent_s, self._spent_s = self._spent_s, 0.0
        if spent_s < _UNNOTICED_S:
            self._spent_s = spent_s
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(min(_REST * spent_s, _LONGEST_REST_S))
