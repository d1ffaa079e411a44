"""Commits of what became of messages: everything that settled in one turn of the loop is one frame."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence

from penstock.broker.unit import Unit
from penstock.core.errors import PenstockError
from penstock.core.types import Durability, Purpose
from penstock.log.columns import Columns
from penstock.log.partition import Log
from penstock.log.shard import Part, Shard
from penstock.log.spread import Spread

# Frames hold 16 MiB. A unit adds at most a few; the next ones wait for the next frame.
_ENOUGH_BYTES = 4 << 20


class _NothingToSay(Exception):
    """A frame without a part is none."""


class Ledger:
    """State records are taken from the units at the moment at which their frame is staged: the state log has them in
    the order in which changes were applied, and a snapshot taken at any time knows where it stands."""

    def __init__(self, shard: Shard) -> None:
        self._shard, self._loop = shard, asyncio.get_running_loop()
        self._dirty: dict[Durability, dict[Unit, None]] = {}
        self._flushed: dict[Durability, asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: set[asyncio.Future[None]] = set()

    def flush_soon(self, unit: Unit) -> asyncio.Future[None]:
        """Done when what was noted of the unit so far is committed, in the sense of the queue's durability."""
        level = unit.data.settings.durability
        future = self._flushed.get(level)
        if future is None:
            future = self._flushed[level] = self._loop.create_future()
            if not self._shard.is_visited:
                self._loop.call_soon(self._start, level, future)
        self._dirty.setdefault(level, {})[unit] = None
        return future

    def flush_all_soon(self, units: Iterable[Unit]) -> list[asyncio.Future[None]]:
        """flush_soon() of many: a future for each durability among them."""
        found: dict[Durability, asyncio.Future[None]] = {}
        for unit in units:
            level = unit.data.settings.durability
            if level in found:
                self._dirty[level][unit] = None
            else:
                found[level] = self.flush_soon(unit)
        return list(found.values())

    def flush_now(self) -> None:
        """What was to be flushed soon, for one who visits the shard (Shard.is_visited): no turn of the loop follows."""
        for level, future in list(self._flushed.items()):
            self._start(level, future)

    async def flush(self, units: Iterable[Unit]) -> None:
        """Returns when all that was noted of the units is committed."""
        await asyncio.gather(*self.flush_all_soon(units))

    async def commit(self, parts: Sequence[Part], unit: Unit, group: int, settle: Callable[[], None]) -> None:
        """One frame: `parts`, what `settle` does at the moment at which it is staged, and what else was noted of the
        group there."""

        def late() -> list[Part]:
            settle()
            return state_parts({unit: drained(unit, (group,))})

        await self._commit(parts, late)

    async def drain(self) -> None:
        while waiting := [*self._tasks, *self._under_way]:
            await asyncio.wait(waiting)

    def _start(self, level: Durability, future: asyncio.Future[None]) -> None:
        if self._flushed.get(level) is not future:
            return  # flush_now() was faster
        del self._flushed[level]
        units = self._dirty.pop(level, {})
        if self._is_staged_now(units, future):
            return
        task = self._loop.create_task(self._flush(level, units, future))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _is_staged_now(self, units: dict[Unit, None], future: asyncio.Future[None]) -> bool:
        """What is nearly always so: there is something to say, room for it, and one frame takes it all."""
        is_all = False

        def late() -> Spread:
            nonlocal is_all
            said = _said(units)
            is_all = not units
            return state_spread(said)

        def done(error: PenstockError | None) -> None:
            self._under_way.discard(future)
            if is_all:
                _tell(future, error)

        self._under_way.add(future)
        try:
            if self._shard.commit_now(late, done):
                return is_all
        except _NothingToSay:
            is_all = False
        except PenstockError as error:
            _tell(future, error)
            is_all = True
        self._under_way.discard(future)
        return is_all

    async def _flush(self, level: Durability, units: dict[Unit, None], future: asyncio.Future[None]) -> None:
        try:
            if not units:
                raise _NothingToSay
            while units:
                await self._commit((), lambda: state_parts(_said(units)))
        except _NothingToSay:
            # What was noted is in a frame that somebody else has staged: a move, a transaction, a snapshot.
            await self._staged(level, future)
        except BaseException as error:
            _tell(future, error)
            if not isinstance(error, Exception):
                raise
        if not future.done():
            future.set_result(None)

    async def _staged(self, level: Durability, future: asyncio.Future[None]) -> None:
        if level is Durability.MEMORY:
            return
        try:
            await self._shard.drain()
        except PenstockError as error:
            _tell(future, error)

    async def _commit(self, parts: Sequence[Part], late: Callable[[], Sequence[Part]]) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        self._under_way.add(done)
        try:
            await self._shard.commit(parts, Purpose.SETTLE, late)
        finally:
            self._under_way.discard(done)
            done.set_result(None)


def drained(unit: Unit, groups: Collection[int] | None = None) -> list[bytes]:
    """The records of what was noted since the last call, of these groups or of all; as many as a frame takes well, the
    rest at the next call."""
    found: list[bytes] = []
    size = 0
    for number, cursor in unit.cursors.items():
        if size > _ENOUGH_BYTES or (groups is not None and number not in groups):
            continue
        for record in cursor.drain_encoded():
            found.append(record)
            size += len(record)
    if found:
        unit.records_since_snapshot += len(found)
        unit.bytes_since_snapshot += size
    return found


def state_parts(found: dict[Unit, list[bytes]]) -> list[tuple[Log, Columns]]:
    return [(unit.state, Columns.of(values)) for unit, values in found.items() if values]


def state_spread(found: dict[Unit, list[bytes]]) -> Spread:
    """The same for many units, each of which has something to say."""
    every = [record for records in found.values() for record in records]
    return Spread(Columns.of(every), array("i", list(map(len, found.values()))), [unit.state for unit in found])


def _said(units: dict[Unit, None]) -> dict[Unit, list[bytes]]:
    found = _enough(units)
    if not found:
        raise _NothingToSay
    return found


def _tell(future: asyncio.Future[None], error: BaseException | None) -> None:
    """A failure that nobody waits for is told by the shard to everybody else."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # else it is reported as never looked at


def _enough(units: dict[Unit, None]) -> dict[Unit, list[bytes]]:
    """Of as many units as a frame takes well; those that have said all are struck off."""
    found: dict[Unit, list[bytes]] = {}
    size = 0
    for unit in list(units):
        before = unit.bytes_since_snapshot
        record = _only_record(unit)
        if records := drained(unit) if record is None else [record]:
            found[unit] = records
            size += unit.bytes_since_snapshot - before
        if record is not None or not unit.is_dirty:
            del units[unit]
        if size > _ENOUGH_BYTES:
            break
    return found


def _only_record(unit: Unit) -> bytes | None:
    """All that a unit with one group has to say, drained, if that is only how far the group has settled everything."""
    if len(unit.cursors) != 1:
        return None
    [cursor] = unit.cursors.values()
    record = cursor.drain_settled()
    if record is not None:
        unit.records_since_snapshot += 1
        unit.bytes_since_snapshot += len(record)
    return record
