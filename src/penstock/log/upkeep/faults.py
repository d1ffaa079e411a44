"""Faults of the disk: which of them pass by themselves, and how often they are told."""

from __future__ import annotations

import errno
import logging
import os
import threading
from time import monotonic
from types import TracebackType

# Room comes back, descriptors are closed, memory is freed: who waits can go on where it was.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN})
_QUIET_S = 60.0


class SyncFailed(OSError):
    """The system forgets what it could not write and calls it clean: whatever the reason, a later sync that succeeds
    says nothing of the bytes before it."""

    @classmethod
    def of(cls, error: OSError) -> SyncFailed:
        return cls(error.errno, error.strerror or str(error), error.filename)


def can_pass(error: OSError) -> bool:
    """Whether the same call may succeed later, with nothing lost meanwhile."""
    return error.errno in _PASSING and not isinstance(error, SyncFailed)


class _Memory:
    """`with memory:` a lack of memory is a fault as any other: OSError (ENOMEM), which passes."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Nothing to prepare: an object that is always there costs a commit less than a generator."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, MemoryError):
            raise out_of_memory() from error


memory = _Memory()


def out_of_memory() -> OSError:
    """For what every commit does, as `with memory:` is two calls."""
    return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


class Telling:
    """Log lines about what goes on failing: each kind once a minute, with how often it happened. Any thread."""

    def __init__(self, logger: logging.Logger, quiet_s: float = _QUIET_S) -> None:
        self._logger, self._quiet_s = logger, quiet_s
        self._told_at: dict[str, float] = {}
        self._untold: dict[str, int] = {}
        self._lock = threading.Lock()

    def warn(self, kind: str, text: str, *facts: object) -> None:
        """`text` is the line of that kind, with places for the facts."""
        with self._lock:
            now, last = monotonic(), self._told_at.get(kind)
            if last is not None and now - last < self._quiet_s:
                self._untold[kind] = self._untold.get(kind, 0) + 1
                return
            self._told_at[kind], untold = now, self._untold.pop(kind, 0)
        if untold:
            text, facts = f"{text} times=%d", (*facts, untold + 1)
        self._logger.warning(text, *facts)
