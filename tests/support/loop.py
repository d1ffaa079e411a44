"""Running coroutines in tests: what a loop would only log, fails the test."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unittest import mock

T = TypeVar("T")

# Typeshed's type of a loop's exception context: its keys are open, so a value can be anything.
Context = dict[str, Any]


class UnhandledInLoop(AssertionError):
    """A task, callback or transport failed and nobody looked at it."""

    def __init__(self, contexts: list[Context]) -> None:
        super().__init__("unhandled in the loop: " + "; ".join(map(_describe, contexts)))
        self.contexts = contexts
        self.__cause__ = next((c["exception"] for c in contexts if "exception" in c), None)


@dataclass(slots=True)
class LoopErrors:
    """What reached asyncio's default handler. A test that provokes this on purpose asserts on it, then clears it."""

    contexts: list[Context] = field(default_factory=list)
    loops_made: int = 0

    def clear(self) -> None:
        self.contexts.clear()

    def check(self) -> None:
        if self.loops_made:
            gc.collect()  # a failed task in a reference cycle reports only when it is collected
        if self.contexts:
            raise UnhandledInLoop(self.contexts)


@contextmanager
def watched_loops() -> Iterator[LoopErrors]:
    """Every asyncio loop of the process, in any thread, reports here instead of to the log."""
    errors = LoopErrors()
    original_init = asyncio.BaseEventLoop.__init__

    def init(loop: asyncio.BaseEventLoop) -> None:
        errors.loops_made += 1
        original_init(loop)

    def handle(_loop: asyncio.BaseEventLoop, context: Context) -> None:
        errors.contexts.append(context)

    with (
        mock.patch.object(asyncio.BaseEventLoop, "__init__", init),
        mock.patch.object(asyncio.BaseEventLoop, "default_exception_handler", handle),
    ):
        yield errors


def run(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run without debug mode, which raises UnhandledInLoop for what failed beside `main`."""
    unhandled: list[Context] = []
    with asyncio.Runner(debug=False) as runner:
        loop = runner.get_loop()
        loop.set_exception_handler(lambda _loop, context: unhandled.append(context))
        try:
            result = runner.run(main)
        except BaseException as error:
            for context in unhandled:
                error.add_note(f"and unhandled in the loop: {_describe(context)}")
            raise
    loop.set_exception_handler(None)  # what is collected later goes to the default handler, which conftest watches
    if unhandled:
        raise UnhandledInLoop(unhandled)
    return result


def _describe(context: Context) -> str:
    error = context.get("exception")
    return f"{context['message']}: {error!r}" if error else str(context["message"])
