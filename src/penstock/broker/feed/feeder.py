"""When groups are looked at for those who are fed: once in a turn of the loop, for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Fed(Protocol):
    def feed(self) -> None:
        """There may be something to send now. Raises nothing: whoever is fed next has no part in it."""
        ...


class Feeder:
    """Of one loop. Commits of a turn feed their consumers together: a task for each of them would take as long to be
    woken as its messages take to be sent."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._hungry: dict[Fed, None] = {}
        self._is_feeding = self._is_turning = False
        self._after: list[Callable[[], None]] = []

    def add(self, fed: Fed) -> None:
        if not self._hungry and not self._is_turning:
            self._loop.call_soon(self._feed)
        self._hungry[fed] = None

    def begin_turn(self) -> None:
        """For who takes what many have sent: those who get hungry until end_turn() are fed there."""
        self._is_turning = True

    def end_turn(self) -> None:
        self._is_turning = False
        if self._hungry:
            self._feed()

    def after(self, call: Callable[[], None]) -> None:
        """`call`, which raises nothing, when all who are fed now were; at once if nobody is."""
        if self._is_feeding:
            self._after.append(call)
        else:
            call()

    def soon(self, call: Callable[[], None]) -> None:
        """As after(), but in the next turn of the loop if nobody is fed."""
        if self._is_feeding:
            self._after.append(call)
        else:
            self._loop.call_soon(call)

    def _feed(self) -> None:
        hungry, self._hungry = self._hungry, {}
        self._is_feeding = True
        try:
            for fed in hungry:
                fed.feed()
        finally:
            for call in self._after:  # which may add others
                call()
            self._after.clear()
            self._is_feeding = False
