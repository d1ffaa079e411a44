"""Publishes pass, unless somebody has to change how messages are placed."""

from __future__ import annotations

import asyncio


class Gate:
    """Between enter() and leave() a publish is placed and committed; while it is closed none is. Used from the loop."""

    __slots__ = ("_empty", "_opened", "_under_way")

    def __init__(self) -> None:
        self._under_way = 0
        self._opened: asyncio.Event | None = None
        self._empty: asyncio.Event | None = None

    async def opened(self) -> None:
        """Returns when it is open."""
        while self._opened is not None:
            await self._opened.wait()

    async def enter(self) -> None:
        await self.opened()
        self._under_way += 1

    def enter_now(self) -> bool:
        """Whether it was open."""
        if self._opened is not None:
            return False
        self._under_way += 1
        return True

    def leave(self) -> None:
        self._under_way -= 1
        if self._empty is not None and not self._under_way:
            self._empty.set()

    async def close(self) -> None:
        """Returns when no publish is under way. One who closes at a time."""
        self._opened, self._empty = asyncio.Event(), asyncio.Event()
        if self._under_way:
            try:
                await self._empty.wait()
            except BaseException:
                self.open()
                raise

    def open(self) -> None:
        opened, self._opened, self._empty = self._opened, None, None
        if opened is not None:
            opened.set()
