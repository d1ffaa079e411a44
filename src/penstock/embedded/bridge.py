"""The broker's event loop in a thread of its own, and how calls of other threads and loops get there and back.

Calls wait in a deque: the loop is woken once for all that came before it looks, and so is each loop that waits for
answers. A call costs a task and two wake-ups, and calls that come together share those of the disk. A thread that comes
while the loop sleeps does its work itself, in the loop's stead, and commits it: no other thread is woken."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from typing import Generic, ParamSpec, Protocol, TypeVar

from penstock.broker.visits import Visits
from penstock.core.errors import Closed
from penstock.embedded.shared_loop import SharedLoop, undisturbed
from penstock.log.journal.commit import Progress

logger = logging.getLogger("penstock.embedded.bridge")

T = TypeVar("T")
Answer = TypeVar("Answer", contravariant=True)
P = ParamSpec("P")
Work = Coroutine[object, None, T]
Stage = Callable[[], asyncio.Future[None] | None]
"""stages something at once; tells of its commit, None if it would have to wait"""

_MAX_THREADS = 4
CLOSED = "the directory was closed: open it again to go on"


class Caller(Protocol[Answer]):
    """Who is told of the end of some work: once, in the loop's thread."""

    def done(self, result: Answer) -> None: ...

    def failed(self, error: BaseException) -> None: ...


class Handed(Protocol):
    """A call that takes no task: each of the two is called in the loop's thread, one of them once."""

    def begin(self) -> None: ...

    def refuse(self, reason: Closed) -> None: ...


class Bridge:
    """Starts with start(), ends with stop(). run(), wait(), post(), visit() are for any other thread."""

    def __init__(self, name: str) -> None:
        self._loop: SharedLoop
        self.visits: Visits | None = None
        """how visit() commits; without it all is left to the loop"""
        self._inbox: deque[Handed] = deque()
        self._is_woken = False
        self._ended: Closed | None = None
        self.ended: Callable[[Closed], None] | None = None
        """told when the loop has ended"""
        self._tasks: set[asyncio.Task[None] | None] = set()
        self._outboxes = threading.local()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)

    def start(self) -> None:
        self._loop = SharedLoop()
        self._thread.start()

    def stop(self) -> None:
        """Work under way is cancelled; returns when the thread has ended. Calling it again does nothing."""
        try:
            self._loop.call_soon_threadsafe(self._loop.stop)
        except RuntimeError:
            logger.debug("the loop has ended before")
        self._thread.join()

    @property
    def is_busy_here(self) -> bool:
        """Whether the calling thread is at work in visit(): it would wait for itself."""
        return self._loop.borrower == threading.get_ident()

    def run(self, work: Work[T]) -> T:
        """The result of the work; the calling thread waits."""
        caller: WaitingThread[T] = WaitingThread()
        self.post(work, caller)
        return caller.wait()

    async def wait(self, work: Work[T]) -> T:
        """The result of the work; the calling task waits. Cancelling the wait does not stop the work."""
        return await self.ask_and_wait(lambda caller: self.post(work, caller))

    async def ask_and_wait(self, question: Callable[[Caller[T]], None]) -> T:
        """What is told to the caller that the question is given; the calling task waits."""
        outbox = self._outbox()
        future: asyncio.Future[T] = outbox.loop.create_future()
        question(_WaitingTask(outbox, future))
        return await future

    def post(self, work: Work[T], caller: Caller[T]) -> None:
        """Begin the work, behind that of earlier calls; the caller is told of its end."""
        self.hand(_Job(self._begin_task, self._tell(work, caller), work, caller))

    def hand(self, call: Handed) -> None:
        """Have it begun, behind earlier calls."""
        self._inbox.append(call)
        if not self._is_woken:
            try:
                self._is_woken = True
                self._wake()
            except BaseException:
                # A signal handler raised: the next one has to wake the loop.
                self._is_woken = False
                raise
        if self._ended is not None:
            self._refuse_all(self._ended)

    def visit(self, stage: Stage) -> bool:
        """For what is one step and a commit: have it staged in this thread while the loop sleeps, commit it here, wait
        for that and raise what went wrong. False if the loop is at work or `stage` gave None: nothing was done."""
        visits = self.visits
        if visits is None or self._inbox:
            return False
        with undisturbed:
            committed = self._staged_here(stage, visits)
        if committed is None:
            return False
        if not committed.done() or committed.cancelled():
            self.run(_end_of(committed))
        elif (error := committed.exception()) is not None:
            raise copy(error)  # others may wait for the same
        return True

    def _staged_here(self, stage: Stage, visits: Visits) -> asyncio.Future[None] | None:
        loop = self._loop
        if not loop.borrow(wait=False):
            return None
        try:
            if self._ended is not None:
                return None
            visits.begin()
            try:
                committed = stage()
            finally:
                is_to_commit = visits.end()
        finally:
            loop.give_back()
        if is_to_commit and (progress := visits.commit()) is not None:
            self._report_here(visits, progress)
        return committed

    def _report_here(self, visits: Visits, progress: Progress) -> None:
        self._loop.borrow(wait=True)
        try:
            if self._ended is None:
                visits.report(progress)
        finally:
            self._loop.give_back()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            logger.debug("the loop has ended: post() refuses what is in the inbox")

    def _look(self) -> None:
        # First: who comes after the last look wakes the loop again.
        self._is_woken = False
        while self._inbox:
            self._inbox.popleft().begin()

    def _begin_task(self, telling: Work[None]) -> None:
        self._tasks.add(self._loop.create_task(telling))

    async def _tell(self, work: Work[T], caller: Caller[T]) -> None:
        try:
            result = await work
        except asyncio.CancelledError:
            caller.failed(Closed(CLOSED))
        except Exception as error:
            caller.failed(error)
        except BaseException as error:
            caller.failed(error)
            raise  # it ends the loop: see _end()
        else:
            caller.done(result)
        self._tasks.discard(asyncio.current_task())

    def _outbox(self) -> _Outbox:
        """Of the running loop; a thread mostly has one."""
        loop = asyncio.get_running_loop()
        found: _Outbox | None = getattr(self._outboxes, "latest", None)
        if found is None or found.loop is not loop:
            found = self._outboxes.latest = _Outbox(loop)
        return found

    def _live(self) -> None:
        executor = _Threads(_MAX_THREADS, thread_name_prefix="penstock")
        self._loop.set_default_executor(executor)
        reason = CLOSED
        try:
            self._loop.run_forever()
        except BaseException as error:
            logger.critical("the broker's loop ended", exc_info=True)
            reason = f"the broker's thread ended by {type(error).__name__}: {error}. Open the directory again to go on"
        finally:
            self._end(Closed(reason))
            executor.shutdown()
            self._loop.close()
            self._loop.end()

    def _end(self, reason: Closed) -> None:
        self._ended = reason
        while tasks := asyncio.all_tasks(self._loop):
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(tasks))
        for broken in self._tasks:
            if broken is not None and not broken.cancelled():
                broken.exception()  # its caller was told
        if self.ended is not None:
            self.ended(reason)
        self._refuse_all(reason)

    def _refuse_all(self, reason: Closed) -> None:
        """Called by the thread that ends and by who comes later: between them, nobody is left waiting."""
        while self._inbox:
            try:
                job = self._inbox.popleft()
            except IndexError:
                return
            job.refuse(Closed(str(reason)))


async def _end_of(committed: asyncio.Future[None]) -> None:
    await committed


class _Job:
    __slots__ = ("_begin", "_close", "_failed", "_telling")

    def __init__(
        self, begin: Callable[[Work[None]], None], telling: Work[None], work: Work[T], caller: Caller[T]
    ) -> None:
        self._begin, self._telling, self._close, self._failed = begin, telling, work.close, caller.failed

    def begin(self) -> None:
        self._begin(self._telling)

    def refuse(self, reason: Closed) -> None:
        self._telling.close()
        self._close()
        self._failed(reason)


class Ignored:
    """Nobody waits. A failure is logged: it is one of the broker, which tells others of it too."""

    def done(self, result: object) -> None:
        """There is nobody to tell."""

    def failed(self, error: BaseException) -> None:
        logger.debug("work that nobody waits for failed error=%s", error)


class WaitingThread(Generic[T]):
    """Waits for an answer. A bare lock as a one-time event: half of what a concurrent Future costs."""

    __slots__ = ("_error", "_lock", "_result")
    _result: T

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def done(self, result: T) -> None:
        self._result = result
        self._lock.release()

    def failed(self, error: BaseException) -> None:
        self._error = error
        self._lock.release()

    def wait(self) -> T:
        self._lock.acquire()
        if self._error is not None:
            try:
                raise self._error
            finally:
                # Else the traceback holds this frame, and this frame the error.
                self._error = None
        return self._result


class _Outbox:
    """Answers for the tasks of one loop."""

    __slots__ = ("_answers", "_is_woken", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._answers: deque[Callable[[], None]] = deque()
        self._is_woken = False

    def put(self, answer: Callable[[], None]) -> None:
        self._answers.append(answer)
        if self._is_woken:
            return
        self._is_woken = True
        try:
            self.loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            logger.debug("a loop ended before its tasks were answered")

    def _deliver(self) -> None:
        self._is_woken = False
        while self._answers:
            self._answers.popleft()()


class _WaitingTask(Generic[T]):
    __slots__ = ("_error", "_future", "_outbox", "_result")
    _result: T

    def __init__(self, outbox: _Outbox, future: asyncio.Future[T]) -> None:
        self._outbox, self._future = outbox, future
        self._error: BaseException | None = None

    def done(self, result: T) -> None:
        self._result = result
        self._outbox.put(self._resolve)

    def failed(self, error: BaseException) -> None:
        self._error = error
        self._outbox.put(self._resolve)

    def _resolve(self) -> None:
        if self._future.done():
            return
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)


class _Threads(ThreadPoolExecutor):
    """When the interpreter exits, pools take no more work before atexit hooks run; closing a directory in such a hook
    does its work in the loop's thread instead."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return super().submit(function, *args, **kwargs)
        except RuntimeError:
            future: Future[T] = Future()
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)
            return future
