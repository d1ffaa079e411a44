"""Publishes pass, unless somebody has to change how messages are placed."""

from __future__ import annotations

import asyncio

from penstock.kernels.takers import Passage


class Gate(Passage):
    """Between enter() and leave() a publish is placed and committed; while it is closed none is. Used from the loop."""

    __slots__ = ("_empty", "_opened")

    def __init__(self) -> None:
        super().__init__()
        self._opened: asyncio.Event | None = None
        self._empty: asyncio.Event | None = None

    async def opened(self) -> None:
        """Returns when it is open."""
        while self._opened is not None:
            await self._opened.wait()

    async def enter(self) -> None:
        await self.opened()
        self.under_way += 1

    def enter_now(self) -> bool:
        """Whether it was open."""
        if self._opened is not None:
            return False
        self.under_way += 1
        return True

    def emptied(self) -> None:
        if self._empty is not None:
            self._empty.set()

    async def close(self) -> None:
        """Returns when no publish is under way. One who closes at a time."""
        self._opened, self._empty = asyncio.Event(), asyncio.Event()
        self.is_closed = self.is_awaited = True
        if self.under_way:
            try:
                await self._empty.wait()
            except BaseException:
                self.open()
                raise

    def open(self) -> None:
        opened, self._opened, self._empty = self._opened, None, None
        self.is_closed = self.is_awaited = False
        if opened is not None:
            opened.set()
