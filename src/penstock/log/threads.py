"""A thread that takes steps: when the bell rings, or when its time has come."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

# What a process that runs a shard should give to sys.setswitchinterval(): three threads share the interpreter, and at
# Python's default of 5 ms a finished sync may wait that long to be noticed.
SWITCH_INTERVAL_S = 0.0005

logger = logging.getLogger("penstock.log.threads")


class Bell:
    """Any thread rings, one waits. A ring is not lost; several before the wait are one."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        # A bare lock used as a binary semaphore: threading.Event allocates a lock for every wait.
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError:
                return  # somebody else rang between the look and the release

    def wait(self, timeout_s: float | None) -> None:
        self._lock.acquire(timeout=-1 if timeout_s is None else timeout_s)


class StepThread:
    """Calls step() until stopped. An exception that step() did not expect is reported once and ends the thread."""

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        timeout_s: Callable[[], float | None],
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self.bell = Bell()
        self._step, self._timeout_s, self._on_crash = step, timeout_s, on_crash
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the step in progress is done and the thread has ended."""
        self._stopping = True
        self.bell.ring()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._step()
                self.bell.wait(self._timeout_s())
        except BaseException as error:
            logger.critical("thread ended name=%s", self._thread.name, exc_info=True)
            self._on_crash(error)
