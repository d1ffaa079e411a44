"""When a turn of a reactor begins: something came, somebody has something to send, or a commit is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from penstock.gateways.wire.outbox import Flusher
from penstock.gateways.wire.reactor import Reactor

# A sync takes a tenth of that; who waits for no commit waits no longer for somebody else's.
_LONGEST_WAIT_S = 2e-3


class Committing(Protocol):
    """What is staged between these is one frame."""

    def begin_turn(self) -> None: ...

    def end_turn(self) -> None: ...


class TurnLoop:
    """Of one reactor, on one event loop. What comes while a frame of publishes is being committed becomes the next
    turn, which begins with the answers to it, or after a while: others need not wait for a slow disk."""

    def __init__(self, reactor: Reactor, flusher: Flusher, committing: Committing, look: Callable[[], None]) -> None:
        """`look` at what a turn brought."""
        self._loop = asyncio.get_running_loop()
        self._reactor, self._flusher, self._committing, self._look_at = reactor, flusher, committing, look
        self._is_turning = self._is_called = self._is_closed = self._is_late = False
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        """while nothing is received, so that what comes during a sync is one turn"""
        self._loop.add_reader(reactor.fileno(), self._readable)
        flusher.then = reactor.flush

    def soon(self) -> None:
        """There is something to send, or to look at, that no socket tells of."""
        if not self._is_called and not self._is_turning:
            self._is_called = True
            self._loop.call_soon(self._called)

    def begun(self) -> None:
        """A frame of publishes is under way."""
        self._under_way += 1

    def given_up(self) -> None:
        """It was refused, or somebody else waits for it."""
        self._under_way -= 1

    def committed(self) -> None:
        """It is: out with the answers, and on to what came meanwhile."""
        self._under_way -= 1
        self._is_late = False
        if self._timer is not None:
            self._go_on(False)
        elif not self._is_turning:
            self._reactor.flush()

    def turn(self) -> None:
        reactor, flusher = self._reactor, self._flusher
        self._is_turning = True
        flusher.gather()
        self._committing.begin_turn()
        try:
            if reactor.turn():
                self._look_at()
        finally:
            self._committing.end_turn()
            self._is_turning = False
            flusher.release()
            reactor.flush()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._reactor.fileno())
        self._flusher.then = _nothing
        self._is_closed = True
        self._reactor.close()

    def _called(self) -> None:
        self._is_called = False
        if not self._is_closed:
            self._readable()

    def _readable(self) -> None:
        if not self._under_way or self._is_late:
            self.turn()
            return
        self._reactor.flush()
        if self._timer is None:
            self._loop.remove_reader(self._reactor.fileno())
            self._timer = self._loop.call_later(_LONGEST_WAIT_S, self._go_on, True)

    def _go_on(self, is_late: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._is_late = is_late
            self._loop.add_reader(self._reactor.fileno(), self._readable)
        self.soon()


def _nothing() -> None:
    """There is no reactor any more."""
