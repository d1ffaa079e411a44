"""An event loop whose turn other threads may have while it sleeps, and the signals that have to wait meanwhile."""

from __future__ import annotations

import asyncio
import os
import selectors
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from typing import TypeVarTuple

try:
    from penstock.kernels._signals import HeldSignals
except ImportError:  # kernels are not compiled
    HeldSignals = None  # type: ignore[assignment, misc]  # looked at below

Args = TypeVarTuple("Args")
Events = list[tuple[selectors.SelectorKey, int]]


class SharedLoop(asyncio.SelectorEventLoop):
    """Whoever has the turn runs what belongs to the loop: its own thread, except while it waits for events, or one that
    borrowed it. What a borrower has the loop do is done when the turn is given back."""

    def __init__(self) -> None:
        self._lender = selector = _LendingSelector()
        self._turn = selector.turn
        self._is_wanted = False
        self.borrower = 0
        """the thread that has the turn in the loop's stead"""
        self._elsewhere: asyncio.AbstractEventLoop | None = None
        super().__init__(selector)

    def borrow(self, wait: bool) -> bool:
        """Have the turn, at once unless `wait`; but a loop that has woken up goes first. For any thread but its own."""
        if (not wait and self._lender.is_awake) or not self._turn.acquire(wait):
            return False
        self.borrower, self._is_wanted = threading.get_ident(), False
        self._elsewhere = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        return True

    def give_back(self) -> None:
        asyncio._set_running_loop(self._elsewhere)
        self.borrower, self._elsewhere, is_wanted = 0, None, self._is_wanted
        self._turn.release()
        if is_wanted:
            self.call_soon_threadsafe(_wake)

    def end(self) -> None:
        """For the loop's thread: nobody waits for its turn in vain."""
        self._turn.release()

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        self._is_wanted = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self._is_wanted = True
        return super().call_at(when, callback, *args, context=context)


class _LendingSelector(selectors.DefaultSelector):
    """The turn is the loop's from the beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = threading.Lock()
        self.turn.acquire()
        self.is_awake = True

    def select(self, timeout: float | None = None) -> Events:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        self.is_awake = False
        self.turn.release()
        try:
            return super().select(timeout)
        finally:
            self.is_awake = True
            self.turn.acquire()


undisturbed: AbstractContextManager[None] = nullcontext()
"""`with undisturbed:` nothing is raised by the handler of a signal, where that is possible"""
CAN_HOLD_SIGNALS = HeldSignals is not None

if HeldSignals is not None:
    undisturbed = _held = HeldSignals(threading.main_thread().ident or 0)
    # Another thread may fork inside such a block: in the child nobody else would end it.
    os.register_at_fork(after_in_child=_held.begin_anew)


def _wake() -> None:
    """The loop looks at what it has to do."""
