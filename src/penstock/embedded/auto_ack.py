"""Acknowledging by coming back for more: what was handed out before is done with."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

from penstock.core.errors import InvalidArgument
from penstock.embedded.message import DeliveredMessage

M = TypeVar("M", bound=DeliveredMessage)


class AutoAck(Generic[M]):
    """Of one consumer, for one thread or task that handles one message after the other. A crash brings back what was
    not acknowledged yet: up to `interval_s` of work."""

    def __init__(self, interval_s: float) -> None:
        if interval_s < 0:
            raise InvalidArgument(f"auto_ack is {interval_s}: give the seconds between two acknowledgements")
        self._interval_s = interval_s
        self._due_s = time.monotonic() + interval_s
        self._done: list[M] = []
        self._last: M | None = None

    def back(self) -> list[M]:
        """The caller wants the next one. What is to be acknowledged now."""
        if self._last is not None and not self._last.is_settled:
            self._done.append(self._last)
        self._last = None
        return self.rest() if time.monotonic() >= self._due_s else []

    def gave(self, message: M | None) -> None:
        self._last = message

    def rest(self) -> list[M]:
        """All that is done with, and was not acknowledged yet."""
        done, self._done = self._done, []
        self._due_s = time.monotonic() + self._interval_s
        return done
