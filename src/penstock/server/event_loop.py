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
# As long as that and a sleep that is ended at once.
_PROMPT_S = 100e-6
# A consumer that acknowledges at once, and nothing behind it, is no reason to wait for more: at 1,000 messages a second
# that was a twentieth of a processor.
_PROMPT_TIMES = 2


class LingeringSelector(selectors.DefaultSelector):
    """Looks again for a moment before it sleeps, where that would have been worth it the last times."""

    def __init__(self) -> None:
        super().__init__()
        self._prompt_times = 0
        """how often in a row what was waited for came at once"""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        begun = monotonic()
        ready = self._linger(begun + _LINGER_S) if self._prompt_times >= _PROMPT_TIMES else []
        ready = ready or super().select(timeout)
        self._prompt_times = self._prompt_times + 1 if monotonic() - begun < _PROMPT_S else 0
        return ready

    def _linger(self, until: float) -> list[tuple[selectors.SelectorKey, int]]:
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
