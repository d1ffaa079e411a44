"""Work that is begun at once, without a task, and that a task goes on with if it has to wait."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import TypeVar

T = TypeVar("T")


def begun(work: Coroutine[object, None, T]) -> T | asyncio.Task[T]:
    """What it gives, if it does not have to wait; else a task that goes on with it. Until it waits, it must not ask for
    its task."""
    try:
        waited = work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    return asyncio.get_running_loop().create_task(resumed(work, waited))


async def resumed(work: Coroutine[object, None, T], waited: object) -> T:
    """For a task: the work, from where it waits for what its first step gave. Until then the work must not have asked
    for its task: there was none."""
    return await _resumed(work, waited)


@types.coroutine
def _resumed(work: Coroutine[object, None, T], waited: object) -> Generator[object, None, T]:
    try:
        while True:
            try:
                yield waited
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                waited = work.throw(error)
            else:
                waited = work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
