"""Commits of what became of messages: everything that settled in one turn of the loop is one frame."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from penstock.broker.queues.unit import Unit
from penstock.core.errors import PenstockError
from penstock.core.types import Durability, Purpose
from penstock.kernels import places
from penstock.log.columns import Columns, Spans
from penstock.log.engine import Effect
from penstock.log.journal.late import Late, Part, values_bytes
from penstock.log.journal.spread import Spread
from penstock.log.partition import Log
from penstock.log.shard import Shard
from penstock.queues.cursor import Cursor, Unsaid

# Settlements that nobody waits for, such as the PUBACK of a consumer, are put together for so long: with a frame for
# each of them, every message through a queue costs two.
_UNAWAITED_S = 0.02
# Frames hold 16 MiB; what is more waits for the next one.
_ENOUGH_BYTES = 4 << 20


class _NothingToSay(Exception):
    """Nothing to commit."""


class Ledger:
    """State records are taken from the units at the moment at which their frame is staged, and can no longer be
    refused: the state log has them in the order in which changes were applied, and a snapshot taken at any time knows
    where it stands."""

    def __init__(self, shard: Shard) -> None:
        self._shard, self._loop = shard, asyncio.get_running_loop()
        self._dirty: dict[Durability, dict[Unit, None]] = {}
        self._flushed: dict[Durability, asyncio.Future[None]] = {}
        self._awaited: set[Durability] = set()
        """of those, the ones that somebody waits for"""
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: set[asyncio.Future[None]] = set()

    def flush_soon(self, unit: Unit, is_awaited: bool = True) -> asyncio.Future[None]:
        """Done when what was noted of the unit so far is committed, in the sense of the queue's durability. Where
        nobody waits, it goes with what somebody waits for, or a little later."""
        if (state := unit.state) is None or state.fault is not None:
            return self._not_written(unit)
        level = unit.data.settings.durability
        future = self._flushed.get(level)
        if future is None:
            future = self._flushed[level] = self._loop.create_future()
            if not is_awaited:
                self._loop.call_later(_UNAWAITED_S, self._start, level, future)
        if is_awaited and level not in self._awaited:
            self._awaited.add(level)
            if not self._shard.is_visited:
                self._loop.call_soon(self._start, level, future)
        self._dirty.setdefault(level, {})[unit] = None
        return future

    def _not_written(self, unit: Unit) -> asyncio.Future[None]:
        """Nothing of it is stored, or its state log takes nothing."""
        told: asyncio.Future[None] = self._loop.create_future()
        if unit.state is None:
            unit.let_go()
            told.set_result(None)
        else:
            _tell(told, unit.state.fault)
        return told

    def flush_all_soon(self, units: Iterable[Unit], is_awaited: bool = True) -> list[asyncio.Future[None]]:
        """flush_soon() of many: a future for each durability among them, and for each that is refused."""
        found: dict[Durability, asyncio.Future[None]] = {}
        refused: list[asyncio.Future[None]] = []
        for unit in units:
            if (state := unit.state) is None:
                unit.let_go()
                continue
            level = unit.data.settings.durability
            if state.fault is not None:
                refused.append(self.flush_soon(unit))
            elif level in found:
                self._dirty[level][unit] = None
            else:
                found[level] = self.flush_soon(unit, is_awaited)
        return [*found.values(), *refused]

    def flush_now(self) -> None:
        """What was to be flushed soon, for one who visits the shard (Shard.is_visited): no turn of the loop follows."""
        if self._flushed:
            for level, future in list(self._flushed.items()):
                self._start(level, future)

    async def flush(self, units: Iterable[Unit]) -> None:
        """Returns when all that was noted of the units is committed."""
        await asyncio.gather(*self.flush_all_soon(units))

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Around a frame in which something is settled, see Statement.settle(): drain() waits for it."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._under_way.add(done)
        try:
            yield
        finally:
            self._under_way.discard(done)
            done.set_result(None)

    async def drain(self) -> None:
        """All that was settled is committed, what nobody waited for too."""
        self.flush_now()
        while waiting := [*self._tasks, *self._under_way]:
            with suppress(PenstockError):  # which those who wait are told
                await self._shard.drain()
            await asyncio.wait(waiting)

    def _start(self, level: Durability, future: asyncio.Future[None]) -> None:
        if self._flushed.get(level) is not future:
            return  # somebody was faster
        del self._flushed[level]
        self._awaited.discard(level)
        units = self._dirty.pop(level, {})
        if self._is_staged_now(units, future):
            return
        task = self._loop.create_task(self._flush(level, units, future))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _is_staged_now(self, units: dict[Unit, None], future: asyncio.Future[None]) -> bool:
        """What is nearly always so: there is something to say, room for it, and one frame takes it all."""
        is_all = False

        def late(room: int) -> tuple[Spread, Effect]:
            statement = _said(units, room, future)

            def apply() -> None:
                nonlocal is_all
                statement.apply()
                is_all = not units

            return statement.spread(), apply

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
        def late(room: int) -> Late:
            statement = _said(units, room, future)
            return Late(statement.parts(), statement.apply)

        try:
            if not units:
                raise _NothingToSay
            while units:
                with self.busy():
                    await self._shard.commit((), Purpose.SETTLE, late)
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


class Statement:
    """What units say to their state logs in one frame of so many bytes: worked out, and not struck off before
    apply()."""

    __slots__ = ("_finished", "_said", "_unsaid", "records", "room")

    def __init__(self, room: int) -> None:
        self.room = room
        self.records: dict[Unit, list[bytes]] = {}
        self._said: list[tuple[places.Said, dict[Unit, None]]] = []
        """what is nearly always all: that of many, in one piece"""
        self._unsaid: list[tuple[Cursor, Unsaid]] = []
        self._finished: list[tuple[dict[Unit, None], Unit]] = []

    def say_all(self, units: dict[Unit, None]) -> None:
        """What was noted of them, as much as there is room for. Who has said all is struck off as this is staged."""
        waiting, at = list(units), 0
        while at < len(waiting):
            said = places.Said(self.room)
            at = places.say(waiting, at, said)
            self.room = said.room
            self._said.append((said, units))
            if at < len(waiting):
                if not self.say(waiting[at]):
                    return
                self._finished.append((units, waiting[at]))
                at += 1

    def say(self, unit: Unit) -> bool:
        """What was noted of a unit, as much as there is room for; whether that was all."""
        found: list[bytes] = []
        room, is_all = self.room - values_bytes(()), True
        for cursor in unit.cursors.values():
            if not cursor.is_dirty:
                continue
            unsaid = cursor.unsaid(room)
            found += unsaid.records
            room -= values_bytes(unsaid.records)
            self._unsaid.append((cursor, unsaid))
            is_all &= cursor.is_all(unsaid)
        if found:
            self.records[unit] = found
            self.room -= values_bytes(found)
        return is_all

    def settle(self, unit: Unit, cursor: Cursor, offsets: array[int]) -> None:
        """That these messages are settled in this frame. What else was noted waits for another one. Of a unit without a
        state log nothing has to be said."""
        if unit.state is None:
            return
        settlement = cursor.settlement(offsets)
        self._unsaid.append((cursor, settlement))
        self.records.setdefault(unit, []).extend(settlement.records)

    @property
    def is_empty(self) -> bool:
        if self.records:
            return False
        for said, _ in self._said:  # noqa: SIM110  # any() of a generator is a call more for each
            if said.starts:
                return False
        return True

    def parts(self) -> list[Part]:
        spread = self.spread()
        return spread.parts() if spread.logs else []

    def spread(self) -> Spread:
        """What all of them say."""
        if len(self._said) == 1 and not self.records:
            return _spread_of(self._said[0][0])
        pieces: list[bytes] = []
        starts, ends, size = array("i"), array("i"), 0
        logs: list[Log] = []
        counts = array("i")
        for said, _ in self._said:
            pieces.append(said.words.tobytes())
            starts += said.starts if not size else array("i", [size + start for start in said.starts])
            ends += said.ends if not size else array("i", [size + end for end in said.ends])
            logs += [unit.state_log for unit, count in zip(said.units, said.counts, strict=True) if count]
            counts.extend([count for count in said.counts if count])
            size += len(pieces[-1])
        for unit, records in self.records.items():
            logs.append(unit.state_log)
            counts.append(len(records))
            for record in records:
                pieces.append(record)
                starts.append(size)
                size += len(record)
                ends.append(size)
        source = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return Spread(Columns(len(starts), source, Spans(starts, ends)), counts, logs)

    def apply(self) -> None:
        """The frame is staged."""
        for said, units in self._said:
            places.strike_off(said, units)
        for cursor, unsaid in self._unsaid:
            cursor.said(unsaid)
        for unit, records in self.records.items():
            unit.note_records(records)
        for units, unit in self._finished:
            del units[unit]


def _spread_of(said: places.Said) -> Spread:
    """What is nearly always all: no piece of it has to be moved."""
    units, counts = said.units, said.counts
    if 0 in counts:
        units = [unit for unit, count in zip(units, counts, strict=True) if count]
        counts = [count for count in counts if count]
    columns = Columns(len(said.starts), said.words.tobytes(), Spans(said.starts, said.ends))
    return Spread(columns, array("i", counts), [unit.state_log for unit in units])


def _said(units: dict[Unit, None], room: int, future: asyncio.Future[None]) -> Statement:
    """Of as many units as a frame takes well. One whose state log takes nothing keeps what it has to say, and `future`
    is told; the others are not held up by it."""
    statement = Statement(min(room, _ENOUGH_BYTES))
    for unit in [unit for unit in units if unit.state_log.fault is not None]:
        _tell(future, unit.state_log.fault)
        del units[unit]
    statement.say_all(units)
    if statement.is_empty:
        statement.apply()
        raise _NothingToSay
    return statement


def _tell(future: asyncio.Future[None], error: BaseException | None) -> None:
    """A failure that nobody waits for is told by the shard to everybody else."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # else it is reported as never looked at
