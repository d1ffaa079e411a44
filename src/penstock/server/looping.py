"""The event loop that serves all connections."""

from __future__ import annotations

import asyncio
import select
import selectors
from collections.abc import Callable
from time import monotonic

from penstock.gateways.pace import Pace
from penstock.server.config import LoopKind
from penstock.server.written import BadConfiguration

# A peer that answers what it was just sent does so within this time; to sleep until then and be woken takes as long.
_LINGER_S = 50e-6
# Who was quiet for longer is not about to answer.
_LIVELY_S = 1e-3


class PacedSelector(selectors.DefaultSelector):
    """Looks again for a moment before it sleeps, while something goes on; while it is better to gather, less often."""

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace, self._busy_s = pace, 0.0
        self.waker: selectors.SelectorKey | None = None
        """of the end at which other threads wake the loop, which is looked at all the time"""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        now, is_idle = monotonic(), timeout is None or timeout > 0
        if (wait_s := self._pace.wait_s(now)) > 0:
            if not is_idle:
                return []
            if woken := self._is_woken(wait_s if timeout is None else min(wait_s, timeout)):
                return woken
            now = monotonic()
        self._pace.looks(now)
        ready = super().select(0)
        if not ready and is_idle:
            ready = self._linger() or super().select(timeout)
        if ready:
            self._busy_s = monotonic()
        return ready

    def _is_woken(self, wait_s: float) -> list[tuple[selectors.SelectorKey, int]]:
        """By another thread, while it waits: what that one did need not wait as well. Nothing of the sort: nothing."""
        began_s, watched = monotonic(), [] if self.waker is None else [self.waker]
        ready, _, _ = select.select([key.fd for key in watched], [], [], wait_s)
        self._pace.waited(monotonic() - began_s)
        return [(key, selectors.EVENT_READ) for key in watched] if ready else []

    def _linger(self) -> list[tuple[selectors.SelectorKey, int]]:
        now = monotonic()
        if now - self._busy_s > _LIVELY_S:
            return []
        until = now + _LINGER_S
        ready: list[tuple[selectors.SelectorKey, int]] = []
        while not ready and monotonic() < until:
            ready = super().select(0)
        return ready


class PacedLoop(asyncio.SelectorEventLoop):
    """What receives from its connections tells its pace."""

    def __init__(self) -> None:
        self.pace = Pace()
        selector = PacedSelector(self.pace)
        super().__init__(selector)
        # Nothing else is registered yet.
        [selector.waker] = selector.get_map().values()


def pace_of(loop: asyncio.AbstractEventLoop) -> Pace:
    """One that nobody asks, for a loop without."""
    return loop.pace if isinstance(loop, PacedLoop) else Pace()


def loop_factory(kind: LoopKind) -> Callable[[], asyncio.AbstractEventLoop]:
    """BadConfiguration for one that is not installed."""
    if kind is LoopKind.ASYNCIO:
        return PacedLoop
    try:
        import uvloop
    except ImportError:
        reason = "uvloop is not installed: install it with `pip install uvloop`, or write asyncio"
        raise BadConfiguration("loop", reason) from None
    return uvloop.new_event_loop
