"""What somebody waits for: futures of asyncio and of threads alike."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TypeVar

T = TypeVar("T")

Promise = asyncio.Future[T] | concurrent.futures.Future[T]


def thread_promise() -> concurrent.futures.Future[T]:
    """For a thread. It cannot be cancelled: what it is about is on its way."""
    promise: concurrent.futures.Future[T] = concurrent.futures.Future()
    promise.set_running_or_notify_cancel()
    return promise


def keep(promise: Promise[T], result: T) -> None:
    """Nothing happens if nobody waits any more."""
    if not promise.done():
        promise.set_result(result)


def break_(promise: Promise[T], error: Exception) -> None:
    """Whoever made the promise tells of the failure elsewhere too, so that a future nobody looks at is no complaint."""
    if not promise.done():
        promise.set_exception(error)
        promise.exception()
