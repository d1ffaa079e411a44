"""Calls that come while others of their kind are under way, done together: what 64 threads put one by one is a few
batches. Who comes alone is not held up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from penstock.embedded.bridge import Stage, Work
from penstock.embedded.runtime import Runtime

# Of a frame's 16 MiB, with room for what is stored beside the bytes that are counted.
_TOGETHER_BYTES = 4 << 20


class Item(Protocol):
    """One call. Whoever made it is told by its caller, once."""

    @property
    def bytes(self) -> int: ...

    def fail(self, error: BaseException) -> None: ...


Call = TypeVar("Call", bound=Item)


class Gatherer(Generic[Call]):
    """add() and visit() are for any thread. `together` runs on the broker's loop; it answers every item that it is
    given, whatever happens."""

    def __init__(self, runtime: Runtime, together: Callable[[list[Call]], Work[None]]) -> None:
        self._runtime, self._together = runtime, together
        self._waiting: deque[Call] = deque()
        self._is_awake = False

    def add(self, item: Call) -> None:
        self._waiting.append(item)
        if not self._is_awake:
            self._start()

    def visit(self, stage: Stage) -> bool:
        """Runtime.visit() for one who comes alone; who comes meanwhile waits, to be gathered. False, and nothing was
        done, if others are at it."""
        if self._is_awake:
            return False
        try:
            self._is_awake = True
            return self._runtime.visit(stage)
        finally:
            self._is_awake = False
            if self._waiting:
                self._start()

    def _start(self) -> None:
        try:
            self._is_awake = True
            self._runtime.post(self._run(), self)
        except BaseException:
            # A signal handler raised: the next one has to begin anew.
            self._is_awake = False
            raise

    def done(self, result: None) -> None:
        """Each item was answered for itself."""

    def failed(self, error: BaseException) -> None:
        """The loop has ended."""
        self._is_awake = False
        while self._waiting:
            self._waiting.popleft().fail(error)

    async def _run(self) -> None:
        while items := self._taken():
            await self._together(items)

    def _taken(self) -> list[Call]:
        if not self._waiting:
            # First: who comes after the last look begins anew.
            self._is_awake = False
        elif len(self._waiting) == 1:
            return [self._waiting.popleft()]
        items: list[Call] = []
        size = 0
        while self._waiting and size < _TOGETHER_BYTES:
            items.append(self._waiting.popleft())
            size += items[-1].bytes
        return items
