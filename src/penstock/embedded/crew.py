"""All workers of a database: registered by a decorator, run together, stopped together."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import FrameType
from typing import TypeVar, cast

from penstock.core.errors import InvalidArgument
from penstock.embedded.runtime import Runtime
from penstock.embedded.worker import AsyncHandler, Job, PlainHandler, TaskWorker, ThreadWorker

Handler = PlainHandler | AsyncHandler
F = TypeVar("F", bound=Handler)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class Registration:
    """The decorator that worker() returns."""

    job: Job
    handlers: list[Handler] = field(default_factory=list)

    def __call__(self, handler: F) -> F:
        self.handlers.append(handler)
        return handler


class Crew:
    """One run at a time; ask_to_stop() is for any thread and for signal handlers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._registered: list[Registration] = []
        self._running = threading.Lock()
        self._threads: list[ThreadWorker] = []
        self._tasks: list[TaskWorker] = []
        # Not an Event: a signal may come while the thread that waits holds its lock.
        self._wishes: SimpleQueue[BaseException | None] = SimpleQueue()

    def register(self, job: Job) -> Registration:
        if job.concurrency < 1:
            raise InvalidArgument(f"a worker with a concurrency of {job.concurrency} handles nothing: give at least 1")
        self._registered.append(Registration(job))
        return self._registered[-1]

    def run(self) -> None:
        """Until asked to stop, or until a worker cannot go on: its error is raised."""
        wish: BaseException | None = None
        with self._one_run():
            self._tasks = tasks = self._task_workers()
            loop_thread = threading.Thread(target=_run_tasks, args=(tasks,), name="penstock workers", daemon=True)
            loop_thread.start()
            try:
                self._start_threads()
                wish = self._wishes.get()
            finally:
                self._end_threads()
                loop_thread.join()
        if wish is not None:
            raise wish

    async def run_async(self) -> None:
        """As run(); async functions are called on this loop."""
        wish: BaseException | None = None
        with self._one_run():
            self._tasks = tasks = self._task_workers()
            working = [asyncio.ensure_future(worker.work()) for worker in tasks]
            waiting = asyncio.ensure_future(asyncio.to_thread(self._wishes.get))
            try:
                await asyncio.to_thread(self._start_threads)
                wish = await asyncio.shield(waiting)
            finally:
                self._wishes.put(None)
                await asyncio.to_thread(self._end_threads)
                await asyncio.wait([waiting, *working])
        if wish is not None:
            raise wish

    def ask_to_stop(self) -> None:
        workers: list[ThreadWorker | TaskWorker] = [*self._threads, *self._tasks]
        for worker in workers:
            worker.is_stopping = True
        self._wishes.put(None)

    def stop(self) -> None:
        """Returns when the run, if there is one, has ended."""
        me = threading.current_thread()
        if any(worker.has_thread(me) for worker in self._threads):
            raise InvalidArgument("a worker's function cannot close the directory it is called from: call stop()")
        if self._running.locked():
            self.ask_to_stop()
            with self._running:
                return

    def _task_workers(self) -> list[TaskWorker]:
        return [
            TaskWorker(self._runtime, each.job, cast(AsyncHandler, handler), self._wishes.put)
            for each in self._registered
            for handler in each.handlers
            if inspect.iscoroutinefunction(handler)
        ]

    def _start_threads(self) -> None:
        for each in self._registered:
            for handler in each.handlers:
                if not inspect.iscoroutinefunction(handler):
                    self._start_thread(
                        ThreadWorker(self._runtime, each.job, cast(PlainHandler, handler), self._wishes.put)
                    )

    def _start_thread(self, worker: ThreadWorker) -> None:
        # First: its function may ask to stop at once.
        self._threads.append(worker)
        try:
            worker.start()
        except BaseException:
            self._threads.remove(worker)
            raise

    def _end_threads(self) -> None:
        for task_worker in self._tasks:
            task_worker.ask_to_stop()
        for worker in self._threads:
            worker.ask_to_stop()
        for worker in self._threads:
            worker.finish()
        self._threads = []

    @contextmanager
    def _one_run(self) -> Iterator[None]:
        if not self._running.acquire(blocking=False):
            raise InvalidArgument("the workers run already: stop() them first")
        try:
            with self._signals():
                yield
        finally:
            while not self._wishes.empty():
                self._wishes.get()
            self._running.release()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM ask to stop, where Python lets us say so: in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.ask_to_stop()


def _run_tasks(workers: list[TaskWorker]) -> None:
    async def work() -> None:
        await asyncio.gather(*[worker.work() for worker in workers])

    if workers:
        asyncio.run(work())
