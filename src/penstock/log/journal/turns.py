"""Whose turn it is: commits to a log keep the order of calls though one of them has work to do before it is staged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from penstock.core.types import LogNumber
from penstock.log.partition import Log


class Turns:
    """Used from the loop."""

    def __init__(self) -> None:
        self._last: dict[LogNumber, asyncio.Future[None]] = {}
        """of each log that somebody has the turn of: done when the last one in line has had it"""

    def __bool__(self) -> bool:
        return bool(self._last)

    def hold(self, logs: Iterable[Log]) -> bool:
        """Whether one who comes now would have to wait."""
        last = self._last
        return bool(last) and any(log.number in last for log in logs)

    @asynccontextmanager
    async def taken(self, logs: Iterable[Log]) -> AsyncIterator[None]:
        """Inside, nobody else stages anything for these logs. Those who come meanwhile wait, in order."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        numbers = [log.number for log in logs]
        before = {self._last[number] for number in numbers if number in self._last}
        self._last |= dict.fromkeys(numbers, turn)
        try:
            if before:
                await asyncio.wait(before)
            yield
        finally:
            turn.set_result(None)
            self._last = {number: last for number, last in self._last.items() if last is not turn}
