"""Records that decide about everything else (what was declared, who may do what), in two logs that take the same ones:
either is enough."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from penstock.core.errors import LogDamaged, LogPoisoned
from penstock.core.ports import Buffer
from penstock.core.types import LogName, Purpose
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.journal.late import Part
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.shard import Shard
from penstock.queues.declared import WRITES_KEY

logger = logging.getLogger("penstock.broker")

_RECORDS_AT_ONCE = 1000
# Each commit ends with a record of this key: how many there have been. No other key begins with a zero byte.
_WRITES = WRITES_KEY.encode()

Rows = Iterator[tuple[bytes, bytes]]


class CopiedLog:
    """The newest record of a key is the truth, an empty one means that it is gone. Used from the loop.

    A log that was stopped comes back at the next opening as it was then, whole and old: each commit is numbered, and
    the log with the greater number counts."""

    def __init__(self, shard: Shard, log: Log, copy: Log) -> None:
        self._shard, self.log, self.copy = shard, log, copy
        self._source = log
        self._writes = 0
        self._left: dict[bytes, bytes] | None = None

    @classmethod
    async def open(cls, shard: Shard, name: LogName, settings: LogSettings, *, may_lose: bool = False) -> CopiedLog:
        """A log that is damaged, older than the other, or new beside it, is written anew from the other. LogDamaged or
        LogPoisoned if neither is whole, unless it `may_lose` what cannot be read."""
        known = {log.name: log for log in shard.logs}
        names = name, LogName(f"{name}.2")
        missing = [(each, settings) for each in names if each not in known]
        if missing:
            known |= {log.name: log for log in await shard.create_many(missing)}
        copied = cls(shard, *(known[each] for each in names))
        await copied._mend([known[each] for each, _ in missing], may_lose)
        return copied

    @property
    def has_lost(self) -> bool:
        """Neither was whole when this was opened: what could be read is there."""
        return self._left is not None

    def rows(self) -> Rows:
        """Key and value of each record, in order, of the log that is whole and has the newest; what was left of both
        if none is."""
        rows = self._rows(self._source) if self._left is None else iter(self._left.items())
        return ((key, value) for key, value in rows if key != _WRITES)

    async def write(self, records: Sequence[tuple[str, bytes]]) -> None:
        """One commit."""
        await self._shard.commit(self.parts(records), Purpose.SETTLE)

    def parts(self, records: Sequence[tuple[str, bytes]]) -> list[Part]:
        """What of a commit they are, which is staged in this turn of the loop."""
        self._writes += 1
        pairs = [*((key.encode(), value) for key, value in records), self._numbered()]
        return [(log, _columns(pairs)) for log in self._writable()]

    def _numbered(self) -> tuple[bytes, bytes]:
        return _WRITES, b"%d" % self._writes

    def _writable(self) -> list[Log]:
        """A log whose file is gone takes nothing: the other one goes on alone."""
        return [log for log in (self.log, self.copy) if log.fault is None] or [self.log]

    def _rows(self, log: Log) -> Rows:
        return _rows_of(self._shard.reader.batches(log, log.start))

    async def _mend(self, new: list[Log], may_lose: bool) -> None:
        standing: dict[Log, dict[bytes, bytes]] = {}
        fault: LogDamaged | LogPoisoned | None = None
        for log in (self.log, self.copy):
            try:
                standing[log] = _folded(self._rows(log))
            except (LogDamaged, LogPoisoned) as error:
                fault = error
                logger.error("damaged log, its copy counts log=%s reason=%s", log.name, error)
        old = [log for log in standing if log not in new]
        if not old and fault is not None:
            if not may_lose:
                raise fault
            logger.critical("both copies of a log are damaged, records are lost log=%s", self.log.name)
            standing[self.log] = self._left = self._readable()
            old = [self.log]
        if not old:
            return
        best = self._source = min(old, key=lambda log: (-_writes(standing[log]), _passed_over(log)))
        self._writes = _writes(standing[best])
        for log in (self.log, self.copy):
            if log.fault is None and (self.has_lost or (log is not best and standing.get(log) != standing[best])):
                logger.warning("log is written anew from its copy log=%s", log.name)
                await self._write_anew(log, standing[best])

    def _readable(self) -> dict[bytes, bytes]:
        """What can be read of either, the newer over the older."""
        readable = [list(_rows_of(self._shard.readable(log, log.start))) for log in (self.log, self.copy)]
        readable.sort(key=lambda rows: _writes(_folded(iter(rows))))
        return _folded(chain.from_iterable(readable))

    async def _write_anew(self, log: Log, records: dict[bytes, bytes]) -> None:
        """The number comes last, alone: until then the log counts as old, wherever this breaks off."""
        start, pairs = log.end, [pair for pair in records.items() if pair[0] != _WRITES]
        for at in range(0, len(pairs), _RECORDS_AT_ONCE):
            await self._shard.append(log, _columns(pairs[at : at + _RECORDS_AT_ONCE]), Purpose.SETTLE)
        await self._shard.trim(log, start)
        if self._writes:
            await self._shard.append(log, _columns([self._numbered()]), Purpose.SETTLE)


def _columns(pairs: Sequence[tuple[bytes, bytes]]) -> Columns:
    keys, values = zip(*pairs, strict=True)
    return Columns.of(list(values), keys=list(keys))


def _rows_of(batches: Iterable[Buffer]) -> Rows:
    for data in batches:
        for row in Batch.parse(data):
            if row.key is not None:
                yield row.key, row.value


def _folded(rows: Rows) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for key, value in rows:
        if value:
            found[key] = value
        else:
            found.pop(key, None)
    return found


def _writes(records: dict[bytes, bytes]) -> int:
    """0 for one that was written before they were counted."""
    return int(records.get(_WRITES, b"0"))


def _passed_over(log: Log) -> int:
    """Offsets that were skipped inside it: a repair took records out of one that has more."""
    return sum(epoch.start - epoch.previous_end for epoch in log.bounds.epochs if epoch.start > log.start)
