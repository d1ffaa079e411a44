"""Logs that are in memory alone: no number in the catalogue, no journal, no file. They are gone when the directory is
closed, or the process is."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable
from dataclasses import dataclass

from penstock.core.errors import InvalidArgument, NoSuchLog, VolatileFull
from penstock.core.types import Compression, Durability, LogName, LogNumber, Offset, Sequence
from penstock.kernels import staged
from penstock.log import batch as batches
from penstock.log.encoded import Rows, encode
from penstock.log.journal.frames import Entry
from penstock.log.journal.late import Late, LateParts, nothing
from penstock.log.partition import Log
from penstock.log.reading.bounds import Bounds
from penstock.log.reading.holes import Holes
from penstock.log.reading.recent import RecentBatches
from penstock.log.records import LogSettings

Part = tuple[Log, Rows]

# What is settled is taken off the front when it is so much of a log: each time, what follows moves up.
_SETTLED_BATCHES, _SETTLED_BYTES, _SETTLED_PART = 256, 256 << 10, 4
# Beside its bytes, what a batch takes as an object in a list.
_BATCH_BYTES = 160
_SETTINGS = LogSettings(durability=Durability.MEMORY)
_NO_HOLES, _NO_RECENT = Holes(), RecentBatches()


class NeverStored(InvalidArgument):
    """A log that is in memory alone came to where frames are made: a mistake of ours."""


_NEVER = NeverStored("a log that is in memory alone cannot be stored")


@dataclass(slots=True)
class VolatileMemory:
    """What all volatile logs of a shard have together."""

    limit_bytes: int = 256 << 20
    log_bytes: int = 64 << 20
    """most of one of them"""
    used: int = 0
    last_number: int = 0

    def log(self, name: LogName) -> VolatileLog:
        """Its refusals name it so."""
        self.last_number -= 1
        return VolatileLog(LogNumber(self.last_number), name, self)


class VolatileLog(Log):
    """As a log to everybody who reads it. What is appended is there at once, and it lets go of what is settled. Its
    fault is for frames: none takes it."""

    __slots__ = ("_memory", "_settled", "_settled_bytes", "bytes", "is_gone")

    def __init__(self, number: LogNumber, name: LogName, memory: VolatileMemory) -> None:
        staged.StagedLog.__init__(self, number, Bounds())
        self.name, self._settings = name, _SETTINGS
        self.wanted_from = _nothing_wanted
        self.holes, self.recent = _NO_HOLES, _NO_RECENT
        self.files_end, self.list_sequence = staged.NO_CUT, Sequence(-1)
        self.durability, self.is_apart = Durability.MEMORY, True
        self.fault = _NEVER
        self._memory = memory
        self.bytes = 0
        """in memory, what is settled and not let go of yet included"""
        self._settled = self._settled_bytes = 0
        """batches at the front of the tail that nobody wants any more"""
        self.is_gone = False

    def refuse_more(self, size: int, together: int) -> None:
        """VolatileFull if it would hold too much with so many bytes more, or all logs with what they get together."""
        memory = self._memory
        if self.bytes + size > memory.log_bytes:
            raise VolatileFull(self.name, self.bytes, memory.log_bytes, "broker.volatile_queue_size")
        if memory.used + together > memory.limit_bytes:
            raise VolatileFull(self.name, memory.used, memory.limit_bytes, "broker.volatile_size")

    def add(self, entry: Entry) -> None:
        size = self.append(entry) + _BATCH_BYTES
        self.high_watermark = entry.end
        self.bytes += size
        self._memory.used += size

    def settled_below(self, offset: int) -> None:
        """Nobody wants what lies below."""
        bounds, tail, settled = self.bounds, self.tail, self._settled
        if offset <= bounds.start:
            return
        bounds.start = offset
        size = self._settled_bytes
        while settled < len(tail) and tail[settled].end <= offset:
            size += len(tail[settled].data) + _BATCH_BYTES
            settled += 1
        if settled * _SETTLED_PART >= len(tail) or settled >= _SETTLED_BATCHES or size >= _SETTLED_BYTES:
            del tail[:settled]
            self._give_back(size)
            settled = size = 0
        self._settled, self._settled_bytes = settled, size

    def end_it(self) -> None:
        """Nothing is appended any more."""
        self.is_gone = True
        self.on_commit, self.wanted_from = None, _nothing_wanted
        self.tail = []
        self._give_back(self.bytes)

    def _give_back(self, size: int) -> None:
        self.bytes -= size
        self._memory.used -= size


def stage_one(
    log: Log, rows: Rows, now: int, done: Callable[[None], None], staged_too: Callable[[], None] | None = None
) -> int:
    """VolatileParts of one alone, which most publishes are, with all that follows: the first offset."""
    assert isinstance(log, VolatileLog)
    if log.is_gone:
        raise NoSuchLog(log.name)
    batch = encode(rows)
    size = len(batch) + _BATCH_BYTES
    log.refuse_more(size, size)
    first, timestamp = log.bounds.end, max(now, log.last_timestamp)
    end = first + rows.count
    batches.seal(batch, first, 0, timestamp)
    if staged_too is not None:
        staged_too()
    log.add(Entry(log.number, batch, None, first, end, rows.count, timestamp, timestamp, -1))
    if log.listening and log.on_commit is not None:
        log.on_commit([log])
    done(None)
    return first


class VolatileParts:
    """Rows for volatile logs, on their way: worked out, and nothing has changed before apply()."""

    __slots__ = ("_entries", "_logs")

    def __init__(self) -> None:
        self._logs: list[VolatileLog] = []
        self._entries: list[Entry] = []

    def decide(self, parts: abc.Sequence[Part], now: int) -> list[int]:
        """The first offset of each. VolatileFull; what a log that is gone says."""
        ends: dict[LogNumber, tuple[int, int]] = {}
        firsts, together = list[int](), 0
        for log, rows in parts:
            assert isinstance(log, VolatileLog)
            if log.is_gone:
                raise NoSuchLog(log.name)
            batch = encode(rows, Compression.NONE)
            first, size = ends.get(log.number) or (log.bounds.end, 0)
            timestamp, end = max(now, log.last_timestamp), first + rows.count
            batches.seal(batch, first, 0, timestamp)
            size += len(batch) + _BATCH_BYTES
            together += len(batch) + _BATCH_BYTES
            log.refuse_more(size, together)
            ends[log.number] = end, size
            self._logs.append(log)
            self._entries.append(Entry(log.number, batch, None, first, end, rows.count, timestamp, timestamp, -1))
            firsts.append(first)
        return firsts

    def apply(self) -> None:
        for log, entry in zip(self._logs, self._entries, strict=True):
            log.add(entry)

    def tell(self) -> None:
        """Those who wait for more."""
        for log in self._logs:
            if log.listening and log.on_commit is not None:
                log.on_commit([log])


class Beside:
    """Volatile parts of a commit: decided with what else is late in it, in the turn in which it is staged."""

    __slots__ = ("_late", "_now", "_parts", "_soon", "_volatile", "firsts")

    def __init__(
        self,
        parts: abc.Sequence[Part],
        late: LateParts | None,
        now: Callable[[], int],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._parts, self._late, self._now, self._soon = parts, late, now, soon
        self._volatile = VolatileParts()
        self.firsts: list[int] = []

    def late(self, room: int) -> Late:
        parts, apply = Late((), nothing) if self._late is None else self._late(room)
        self.firsts = self._volatile.decide(self._parts, self._now())

        def both() -> None:
            apply()
            self._volatile.apply()
            self._soon(self._volatile.tell)

        return Late(parts, both)

    def without_a_frame(self, staged: Callable[[], None] | None) -> None:
        """It is all there is."""
        self.firsts = self._volatile.decide(self._parts, self._now())
        if staged is not None:
            staged()
        self._volatile.apply()
        self._volatile.tell()


def has_volatile(parts: abc.Sequence[Part]) -> bool:
    for log, _ in parts:  # noqa: SIM110  # a generator costs as much as the look itself
        if log.number < 0:
            return True
    return False


def without_volatile(parts: abc.Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """Those for a frame, and the others."""
    return [part for part in parts if part[0].number >= 0], [part for part in parts if part[0].number < 0]


def in_order(parts: abc.Sequence[Part], durable: abc.Sequence[int], volatile: abc.Sequence[int]) -> list[Offset]:
    """The offsets of parts that went two ways."""
    of_durable, of_volatile = iter(durable), iter(volatile)
    return [Offset(next(of_volatile if log.number < 0 else of_durable)) for log, _ in parts]


def _nothing_wanted() -> int:
    return 0
