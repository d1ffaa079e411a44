"""Work that a thread begins in the loop's stead, and that the loop goes on with if it has to wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.broker.feed.begun import resumed

if TYPE_CHECKING:
    from penstock.embedded.bridge import Caller, Work

T = TypeVar("T")


class Begun(Generic[T]):
    """Whoever has the loop's turn calls go_on(); what is left then is for a task."""

    __slots__ = ("_caller", "_waited", "_work", "is_done")

    def __init__(self, work: Work[T], caller: Caller[T]) -> None:
        self._work, self._caller = work, caller
        self._waited: asyncio.Future[object] | None = None
        self.is_done = False

    def go_on(self) -> None:
        """Up to what it has to wait for, or to its end, of which the caller is told."""
        if self.is_done or (self._waited is not None and not self._waited.done()):
            return
        try:
            waited = self._work.send(None)
            self._waited = waited if isinstance(waited, asyncio.Future) else None
            return
        except StopIteration as end:
            self._caller.done(end.value)
        except BaseException as error:
            self._caller.failed(error)
        self.is_done = True

    async def rest(self) -> T:
        """For a task, which waits for what it waited for."""
        return await resumed(self._work, self._waited)
