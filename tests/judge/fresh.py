"""What programs run against, opened anew now and then: each program leaves its queues behind."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")

# Of about seven queues each.
PROGRAMS_A_BROKER = 250


class Fresh(Generic[T]):
    """Servers, or databases: one that makes queues by itself, one that does not."""

    def __init__(self, place: Path, opened: Callable[[Path, bool], AbstractContextManager[T]]) -> None:
        self._place, self._opened = place, opened
        self._programs: Counter[bool] = Counter()
        self._open: dict[bool, tuple[T, ExitStack]] = {}

    def __enter__(self) -> Fresh[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as closing:
            for _, stack in self._open.values():
                closing.push(stack)

    def of(self, auto_create: bool) -> T:
        """For one program."""
        if self._programs[auto_create] % PROGRAMS_A_BROKER == 0:
            self._begin(auto_create)
        self._programs[auto_create] += 1
        return self._open[auto_create][0]

    def _begin(self, auto_create: bool) -> None:
        if (old := self._open.pop(auto_create, None)) is not None:
            old[1].close()
        place = self._place / f"{'making' if auto_create else 'strict'}-{self._programs[auto_create]}"
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, place, ignore_errors=True)
            found = stack.enter_context(self._opened(place, auto_create))
            self._open[auto_create] = found, stack.pop_all()
