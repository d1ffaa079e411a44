"""An event loop in a thread of its own, for tests that talk to what runs in it through blocking clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 40.0


class LoopThread:
    """From its making to close()."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop of a test")
        self._thread.start()

    def wait(self, work: Awaitable[T]) -> T:
        """What comes of it, on the loop."""

        async def run() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    def call(self, function: Callable[[], T]) -> T:
        """In a turn of the loop."""

        async def run() -> T:
            return function()

        return self.wait(run())

    def look(self) -> None:
        """The loop has looked at all that was sent to it before."""
        for _ in range(2):
            self.call(lambda: None)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Turns of the loop until it holds."""

        async def run() -> None:
            while not is_so():  # noqa: ASYNC110 - what is waited for tells nobody
                await asyncio.sleep(0.002)

        self.wait(run())

    @contextmanager
    def held(self) -> Iterator[None]:
        """The loop does nothing meanwhile: whatever is sent to it, it finds all of it at once."""
        begun, over = threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            over.wait(PATIENCE_S)

        self._loop.call_soon_threadsafe(hold)
        assert begun.wait(PATIENCE_S)
        try:
            yield
        finally:
            over.set()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
