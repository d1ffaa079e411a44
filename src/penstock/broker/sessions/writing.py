"""Records on their way into the state log: all of one turn of the loop in one frame, acknowledgements when it suits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.broker.sessions.records import StateRecord, encode
from penstock.core.errors import PenstockError
from penstock.core.types import Purpose
from penstock.log.columns import Columns
from penstock.log.partition import Log
from penstock.log.shard import Part, Shard

if TYPE_CHECKING:
    from penstock.broker.sessions.session import Session

# Frames hold 16 MiB, those of tests much less; what is left over goes into the next one.
_ENOUGH_BYTES = 64 << 10


class _NothingToSay(Exception):
    """Somebody else's frame took it."""


class StateWriter:
    """Used from the loop. What was noted is in the log before what is written after it."""

    def __init__(self, shard: Shard, log: Log, delay_s: float) -> None:
        self.log, self._shard, self._delay_s = log, shard, delay_s
        self._loop = asyncio.get_running_loop()
        self._records: list[tuple[bytes, asyncio.Future[None] | None]] = []
        self._dirty: dict[Session, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        self._task: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Future[None]] = set()
        self._failure: PenstockError | None = None

    async def write(self, *records: StateRecord) -> None:
        """Returns when they are committed, and folded."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._records += [(encode(record), None) for record in records[:-1]]
        self._records.append((encode(records[-1]), future))
        self._stage_soon()
        await future

    def note(self, record: StateRecord) -> None:
        """To be committed with the next ones, or a little later."""
        self._records.append((encode(record), None))
        self._stage_later()

    def touch(self, session: Session) -> None:
        """Something was settled in it; it will be asked what."""
        self._dirty[session] = None
        self._stage_later()

    def part(self, *records: StateRecord) -> Part:
        """For a frame of somebody else."""
        return self.log, Columns.of([encode(record) for record in records])

    async def flush(self) -> None:
        """Returns when everything noted so far is committed. Raises what a commit failed with."""
        self._stage()
        while waiting := [*self._under_way, *([] if self._task is None else [self._task])]:
            await asyncio.wait(waiting)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _stage_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._stage)

    def _stage_later(self) -> None:
        if self._timer is None and not self._is_due:
            self._timer = self._loop.call_later(self._delay_s, self._stage)

    def _stage(self) -> None:
        """In this turn, or by a task if there is no room now."""
        self._is_due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while (self._records or self._dirty) and self._task is None:
            if not self._is_staged(_Frame(self._loop, self._under_way)):
                self._task = self._loop.create_task(self._wait_for_room())

    def _is_staged(self, frame: _Frame) -> bool:
        try:
            if self._shard.commit_now(lambda: self._taken(frame), lambda error: self._done(frame, error)):
                return True
        except _NothingToSay:
            frame.done(None)
            return True
        except PenstockError as error:
            self._fail(frame, error)
            return True
        frame.done(None)  # it has taken nothing
        return False

    async def _wait_for_room(self) -> None:
        try:
            while self._records or self._dirty:
                await self._commit(_Frame(self._loop, self._under_way))
        finally:
            self._task = None

    async def _commit(self, frame: _Frame) -> None:
        try:
            await self._shard.commit((), Purpose.SETTLE, lambda: self._taken(frame))
        except PenstockError as error:
            self._fail(frame, error)
        except _NothingToSay:
            frame.done(None)
        else:
            frame.done(None)

    def _taken(self, frame: _Frame) -> list[Part]:
        """As much as a frame takes well, in order."""
        values: list[bytes] = []
        size = 0
        while self._dirty and size < _ENOUGH_BYTES:
            session = next(iter(self._dirty))
            del self._dirty[session]
            if not session.is_ended:
                values.append(encode(session.drain()))
                size += len(values[-1])
        count = 0
        while count < len(self._records) and size < _ENOUGH_BYTES:
            value, future = self._records[count]
            count += 1
            values.append(value)
            size += len(value)
            if future is not None:
                frame.waiting.append(future)
        del self._records[:count]
        if not values:
            raise _NothingToSay
        return [(self.log, Columns.of(values))]

    def _fail(self, frame: _Frame, error: PenstockError) -> None:
        """Nothing can be committed any more: everybody who waits is told, and nothing is kept for another try."""
        frame.waiting += [future for _, future in self._records if future is not None]
        self._records.clear()
        self._dirty.clear()
        self._done(frame, error)

    def _done(self, frame: _Frame, error: PenstockError | None) -> None:
        self._failure = error or self._failure
        frame.done(error)


class _Frame:
    """Those who wait for one frame."""

    __slots__ = ("_under_way", "finished", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, under_way: set[asyncio.Future[None]]) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        self.finished: asyncio.Future[None] = loop.create_future()
        self._under_way = under_way
        under_way.add(self.finished)

    def done(self, error: PenstockError | None) -> None:
        self._under_way.discard(self.finished)
        if not self.finished.done():
            self.finished.set_result(None)
        for future in self.waiting:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
