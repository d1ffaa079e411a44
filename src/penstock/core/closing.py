"""What is closed when its `with` block ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_after(error)

    @abstractmethod
    def close(self) -> None: ...

    def _close_after(self, error: BaseException | None) -> None:
        """close(), at the end of a block that ended with this error, if with any."""
        self.close()


class AsyncClosing(ABC):
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close_after(error)

    @abstractmethod
    async def close(self) -> None: ...

    async def _close_after(self, error: BaseException | None) -> None:
        """close(), at the end of a block that ended with this error, if with any."""
        await self.close()
