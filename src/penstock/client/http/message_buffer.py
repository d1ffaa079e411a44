"""Messages that have come, handed out one by one; and what is acknowledged by asking for more."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Generic

from penstock.client.http.incoming import Delivered, F, Settle, StoredMessage


class MessageBuffer(Generic[F]):
    """For one thread or task that handles one message after the other. With `auto_commit_s`, what was handed out is
    done with when the next one is asked for, and acknowledged so often at most: a crash brings back that much work."""

    def __init__(self, settle: Settle[F], auto_commit_s: float | None) -> None:
        self._settle, self._auto_commit_s = settle, auto_commit_s
        self._due_s = time.monotonic() + (auto_commit_s or 0.0)
        self._unread: deque[StoredMessage] = deque()
        self._done: list[Delivered[F]] = []
        self._last: Delivered[F] | None = None

    def back(self) -> bool:
        """The caller wants the next one; whether there is none."""
        if self._auto_commit_s is not None:
            if self._last is not None:
                self._done.append(self._last)
            self._last = None
            # What waits for its time must not wait for messages.
            if not self._unread or time.monotonic() >= self._due_s:
                self.commit()
        return not self._unread

    def fill(self, messages: Iterable[StoredMessage]) -> None:
        self._unread.extend(messages)

    def give(self) -> Delivered[F] | None:
        if not self._unread:
            return None
        self._last = Delivered(self._unread.popleft(), self._settle)
        return self._last

    def commit(self) -> None:
        """Acknowledges what is done with and not settled otherwise."""
        done, self._done = self._done, []
        self._due_s = time.monotonic() + (self._auto_commit_s or 0.0)
        for message in done:
            if not message.is_settled:
                message.ack()

    def take_unread(self) -> list[StoredMessage]:
        """Those nobody was given."""
        unread = list(self._unread)
        self._unread.clear()
        return unread
