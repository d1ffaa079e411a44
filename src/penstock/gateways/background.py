"""Work beside connections: somebody has to see what goes wrong in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine

from penstock.core.errors import PenstockError
from penstock.log.upkeep.faults import Telling


class Background:
    """Of one gateway, whose logger and whose sparing one they are."""

    def __init__(self, logger: logging.Logger, telling: Telling) -> None:
        self._logger, self._telling = logger, telling
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: list[asyncio.Task[None]] = []

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    def spawn(self, work: Coroutine[object, object, object]) -> None:
        async def run() -> None:
            try:
                await work
            except PenstockError as error:
                # What storage refuses it refuses to everybody, and says why itself.
                self._telling.warn("work", "work beside connections failed error=%s", error)
            except Exception:
                self._logger.exception("work beside connections failed")

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Until stop()."""

        async def run() -> None:
            while True:
                await asyncio.sleep(seconds)
                try:
                    await work()
                except PenstockError as error:
                    self._telling.warn("periodic", "periodic work failed error=%s", error)
                except Exception:
                    self._logger.exception("periodic work failed")

        self._timers.append(asyncio.create_task(run()))

    def stop(self) -> None:
        """Nothing is begun by a clock any more."""
        for timer in self._timers:
            timer.cancel()

    async def finish(self) -> None:
        """Returns when nothing is under way."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))
