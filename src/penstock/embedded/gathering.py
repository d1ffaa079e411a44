"""Calls that come while others of their kind are under way, done together: what 64 threads put one by one is a few
batches. Who comes alone is not held up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Generic, Protocol, TypeVar

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
    """add() is for any thread. `together` runs on the broker's loop, one call at a time; it answers every item that it
    is given, whatever happens."""

    def __init__(self, runtime: Runtime, together: Callable[[list[Call]], Coroutine[object, None, None]]) -> None:
        self._runtime, self._together = runtime, together
        self._waiting: deque[Call] = deque()
        self._is_awake = False

    def add(self, item: Call) -> None:
        self._waiting.append(item)
        if not self._is_awake:
            self._is_awake = True
            self._runtime.post(self._run(), self)

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
        items: list[Call] = []
        size = 0
        while self._waiting and size < _TOGETHER_BYTES:
            items.append(self._waiting.popleft())
            size += items[-1].bytes
        return items
