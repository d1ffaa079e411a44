"""Records on their way into the state log: all of one turn of the loop in one frame, acknowledgements when it suits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from functools import partial
from typing import Protocol

from penstock.broker.sessions.records import StateRecord, encode
from penstock.core.errors import PenstockError, TooLarge
from penstock.core.types import Purpose
from penstock.log.columns import Columns
from penstock.log.journal.late import Late, Part
from penstock.log.partition import Log
from penstock.log.shard import Shard

logger = logging.getLogger("penstock.broker.sessions")

# Frames hold 16 MiB, those of tests much less; what is left over goes into the next one.
_ENOUGH_BYTES = 64 << 10


class Settler(Hashable, Protocol):
    """A session that has settled something since it last said so."""

    is_ended: bool

    def unsaid(self) -> StateRecord:
        """What is not in the state log. said() strikes it off."""

    def said(self) -> None: ...


class _NothingToSay(Exception):
    """Somebody else's frame took it."""


class StateWriter:
    """Used from the loop. What was noted is in the log before what is written after it."""

    def __init__(self, shard: Shard, log: Log, delay_s: float) -> None:
        self.log, self._shard, self._delay_s = log, shard, delay_s
        self._loop = asyncio.get_running_loop()
        self._records: list[tuple[bytes, asyncio.Future[None] | None]] = []
        self._dirty: dict[Settler, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        self._task: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Future[None]] = set()
        self._failure: PenstockError | None = None

    async def write(self, *records: StateRecord) -> None:
        """Returns when they are committed, and folded. TooLarge, with nothing written, for one that no frame takes."""
        future: asyncio.Future[None] = self._loop.create_future()
        encoded = [encode(record) for record in records]
        if (longest := max(map(len, encoded))) > self._longest:
            raise TooLarge("what is to be kept of the session", longest, self._longest)
        self._records += [(value, None) for value in encoded[:-1]]
        self._records.append((encoded[-1], future))
        self._stage_soon()
        await future

    @property
    def _longest(self) -> int:
        """Of a record."""
        return self._shard.max_frame_bytes * 3 // 8

    def note(self, record: StateRecord) -> None:
        """To be committed with the next ones, or a little later."""
        data = encode(record)
        if (limit := self._longest) < len(data):
            # No frame takes it, and those that are noted beside it must not fail with it.
            logger.error("a record of a session is too large to be kept bytes=%d limit=%d", len(data), limit)
            return
        self._records.append((data, None))
        self._stage_later()

    def touch(self, session: Settler) -> None:
        """Something was settled in it; it will be asked what."""
        self._dirty[session] = None
        self._stage_later()

    def part(self, *records: StateRecord) -> Part:
        """For a frame of somebody else."""
        return self.log, Columns.of([encode(record) for record in records])

    async def flush(self) -> None:
        """Returns when everything noted so far is committed. Raises what a commit failed with since it was last asked:
        what could not be written then is not waited for any more, and what is noted from now on counts for itself."""
        self._stage()
        while waiting := [*self._under_way, *([] if self._task is None else [self._task])]:
            await asyncio.wait(waiting)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

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
            if self._shard.commit_now(partial(self._taken, frame), lambda error: self._done(frame, error)):
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
            await self._shard.commit((), Purpose.SETTLE, partial(self._taken, frame))
        except PenstockError as error:
            self._fail(frame, error)
        except _NothingToSay:
            frame.done(None)
        else:
            frame.done(None)

    def _taken(self, frame: _Frame, room: int) -> Late:
        """As much as a frame takes well, in order."""
        values: list[bytes] = []
        size, enough = 0, min(_ENOUGH_BYTES, room // 2)
        sessions: list[Settler] = []
        for session in self._dirty:
            if size >= enough:
                break
            sessions.append(session)
            if not session.is_ended:
                values.append(encode(session.unsaid()))
                size += len(values[-1])
        count = 0
        while count < len(self._records) and size < enough:
            values.append(self._records[count][0])
            size += len(values[-1])
            count += 1

        def apply() -> None:
            for session in sessions:
                del self._dirty[session]
                session.said()
            frame.waiting += [future for _, future in self._records[:count] if future is not None]
            del self._records[:count]

        if not values:
            apply()
            raise _NothingToSay
        return Late([(self.log, Columns.of(values))], apply)

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
