"""Waiting for a server that is away, full or short of space: it slows a query down, and ends it only after a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from penstock.client.errors import ConnectionLost, Refused
from penstock.core.errors import ErrorCode, PenstockError

T = TypeVar("T")

_LOG = logging.getLogger("penstock.spark")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
# A line tells that a query waits, not how often it has asked.
_LINE_EVERY_S = 10.0


class GaveUp(PenstockError):
    """The server did not take or give anything for as long as options let a query wait."""

    def __init__(self, what: str, waited_s: float, error: PenstockError) -> None:
        super().__init__(
            f"{what}: nothing moved for {waited_s:.0f} s, the option waitSeconds; the server's last word was: {error}"
        )
        self.code: ErrorCode = error.code


class Patience:
    """One thread. Pauses grow until something moves."""

    def __init__(self, wait_s: float, what: str) -> None:
        self._wait_s, self._what = wait_s, what
        self.moved()

    def moved(self) -> None:
        self._since_s = self._next_line_s = time.monotonic()
        self._pause_s = _FIRST_PAUSE_S

    def wait(self, error: PenstockError) -> None:
        """Before another try. The error itself, if no time heals it; GaveUp if there was enough time."""
        if not is_passing(error):
            raise error
        now_s = time.monotonic()
        if now_s - self._since_s >= self._wait_s:
            raise GaveUp(self._what, now_s - self._since_s, error) from error
        if now_s >= self._next_line_s:
            _LOG.warning("waiting to go on with %s: %s", self._what, error)
            self._next_line_s = now_s + _LINE_EVERY_S
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)


def is_passing(error: PenstockError) -> bool:
    return isinstance(error, ConnectionLost) or (isinstance(error, Refused) and error.is_passing)


def patiently(action: Callable[[], T], wait_s: float, what: str) -> T:
    """What it returns, as soon as it can."""
    patience = Patience(wait_s, what)
    while True:
        try:
            return action()
        except PenstockError as error:
            patience.wait(error)
