"""The event loop that serves all connections."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from time import monotonic

from penstock.server.config import LoopKind
from penstock.server.written import BadConfiguration

# A peer that answers what it was just sent does so within this time; to sleep until then and be woken takes as long.
_LINGER_S = 50e-6
# Who was quiet for longer is not about to answer.
_LIVELY_S = 1e-3


class LingeringSelector(selectors.DefaultSelector):
    """Looks again for a moment before it sleeps, while something goes on."""

    def __init__(self) -> None:
        super().__init__()
        self._busy_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and (timeout is None or timeout > 0):
            ready = self._linger() or super().select(timeout)
        if ready:
            self._busy_s = monotonic()
        return ready

    def _linger(self) -> list[tuple[selectors.SelectorKey, int]]:
        now = monotonic()
        if now - self._busy_s > _LIVELY_S:
            return []
        until = now + _LINGER_S
        ready: list[tuple[selectors.SelectorKey, int]] = []
        while not ready and monotonic() < until:
            ready = super().select(0)
        return ready


def _lingering_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(LingeringSelector())


def loop_factory(kind: LoopKind) -> Callable[[], asyncio.AbstractEventLoop]:
    """BadConfiguration for one that is not installed."""
    if kind is LoopKind.ASYNCIO:
        return _lingering_loop
    try:
        import uvloop
    except ImportError:
        reason = "needs uvloop: pip install 'penstock[uvloop]', or write asyncio"
        raise BadConfiguration("loop", reason) from None
    return uvloop.new_event_loop
