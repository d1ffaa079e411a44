"""An event loop in a thread of its own, for clients that are used from threads."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TypeVar

from penstock.core.errors import Closed

T = TypeVar("T")


class LoopThread:
    """start() once, close() at the end; between them any thread may call run() and post(). Closed before and after."""

    def __init__(self, name: str, not_open: str) -> None:
        """`not_open` is what a caller is told who comes before or after."""
        self._name, self._not_open = name, not_open
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread
        self._lock = threading.Lock()
        self._is_open = self._is_closed = False
        self._posted: deque[Callable[[], object]] = deque()
        self._is_woken = False

    def start(self) -> None:
        with self._lock:
            if self._is_open or self._is_closed:
                raise Closed("a client connects once: make another one")
            self._is_open = True
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._live, name=self._name, daemon=True)
            self._thread.start()

    def run(self, work: Coroutine[object, None, T]) -> T:
        """What comes of it, on the loop."""
        with self._lock:
            if not self._is_open:
                work.close()
                raise Closed(self._not_open)
            waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waiting.result()
        except BaseException:
            # Interrupted while it waited: what nobody waits for is given up.
            waiting.cancel()
            raise

    def post(self, call: Callable[[], object]) -> None:
        """Called on the loop, soon, in the order of posting. Many posts wake the loop once."""
        with self._lock:
            if not self._is_open:
                raise Closed(self._not_open)
            self._posted.append(call)
            if not self._is_woken:
                self._is_woken = True
                self._loop.call_soon_threadsafe(self._take_posted)

    def close(self, last: Callable[[], Coroutine[object, None, None]]) -> None:
        """Runs `last`; calls that wait get their answers. Calling it again does nothing."""
        with self._lock:
            was_open, self._is_open, self._is_closed = self._is_open, False, True
            if not was_open:
                return
            closing = asyncio.run_coroutine_threadsafe(self._end(last()), self._loop)
        try:
            closing.result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self, last: Coroutine[object, None, None]) -> None:
        """Whoever called before waits for a task of this loop, and gets its answer."""
        self._take_posted()
        try:
            await last
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)

    def _take_posted(self) -> None:
        # First: who comes after the last look wakes the loop again.
        self._is_woken = False
        while self._posted:
            self._posted.popleft()()

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
