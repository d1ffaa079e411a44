"""Work on one thing while the next is being fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Thing = TypeVar("Thing")
Fetched = TypeVar("Fetched")


def fetched_ahead(fetch: Callable[[Thing], Fetched], things: Iterable[Thing]) -> Iterator[Fetched]:
    """What `fetch` makes of each, in order; the next one in a thread of its own meanwhile, which is over when this is.
    Raises what it raised."""
    with ThreadPoolExecutor(1, "penstock-ahead") as thread:
        waiting = None
        for thing in things:
            following = thread.submit(fetch, thing)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()
