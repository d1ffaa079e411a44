"""A partition at work: its logs, its groups' cursors, and batches that were read lately."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from penstock.broker.feed.stored import StoredBatch, StoredCache
from penstock.core.types import LogName
from penstock.kernels.places import Partition
from penstock.log.journal.frames import Entry
from penstock.log.partition import Log
from penstock.log.shard import Shard
from penstock.log.volatile import VolatileLog
from penstock.queues.cursor import Cursor
from penstock.queues.dedup import Producers

_READ_BYTES = 1 << 20
# Of what one reading brings.
_READ_BATCHES = 8
# Of the tail, which may be long where a group is behind.
_BATCHES_AT_ONCE = 64


class Unit(Partition):
    """What belongs to one partition of a queue. Used from the loop."""

    __slots__ = (
        "__dict__",
        "_cache",
        "_cached",
        "_producers",
        "_shard",
        "holes",
        "last_snapshot_ms",
        "queue",
        "snapshot_bytes",
        "snapshot_starts",
        "snapshots",
    )

    partition: int
    data: Log
    state: Log | None
    """none where nothing is stored"""
    cursors: dict[int, Cursor]
    """by the number of the group"""
    records_since_snapshot: int
    bytes_since_snapshot: int

    def __init__(
        self, shard: Shard, cache: StoredCache, queue: str, partition: int, data: Log, state: Log | None
    ) -> None:
        super().__init__(partition, data, state)
        self.queue = queue
        self.snapshots: Log | None = None
        self._producers: Producers | None = None
        self.snapshot_bytes = self.last_snapshot_ms = 0
        self.holes = 0
        """that compaction had made when somebody last looked for messages that are gone"""
        self.snapshot_starts: list[tuple[int, int]] = []
        """of those kept, oldest first: offset of the first piece, and what they include of the state log"""
        self._shard, self._cache = shard, cache
        self._cached: list[StoredBatch] = []

    @property
    def producers(self) -> Producers:
        """Most have none."""
        if self._producers is None:
            self._producers = Producers()
        return self._producers

    def forget_producers(self, now: int) -> None:
        """Those of whom nothing was heard for long."""
        if self._producers is not None:
            self._producers.expire(now)

    @property
    def end(self) -> int:
        """First offset that may not be read yet."""
        return self.data.visible_end

    @property
    def state_log(self) -> Log:
        """Of one of which something is stored."""
        assert self.state is not None
        return self.state

    @property
    def start(self) -> int:
        return self.data.start

    @property
    def is_dirty(self) -> bool:
        """Whether a group has something to say to the state log."""
        for cursor in self.cursors.values():  # noqa: SIM110  # a generator costs as much as the look itself
            if cursor.is_dirty:
                return True
        return False

    def let_go(self) -> None:
        """Of one without a state log: what was noted for it is of no use, and what is settled leaves memory."""
        assert isinstance(self.data, VolatileLog)
        for cursor in self.cursors.values():
            if cursor.touched:
                cursor.touched.clear()
        self.data.settled_below(self.data.wanted_from())

    def note_records(self, records: Sequence[bytes]) -> None:
        """They were staged for the state log: a snapshot is due by how many came since the last one."""
        self.records_since_snapshot += len(records)
        self.bytes_since_snapshot += sum(map(len, records))

    def missing(self, first: int) -> int:
        """Offsets at or above `first` that name no message: they were skipped when the log was opened after a crash, or
        compaction removed what they named."""
        return self._skipped(first) + self._shard.holes(self.data, first)

    def _skipped(self, first: int) -> int:
        return sum(
            start.start - max(first, start.previous_end)
            for start in self.data.bounds.epochs
            if start.start > max(first, start.previous_end)
        )

    def has_between(self, first: int, stop: int) -> bool:
        """Whether any offset in first..stop - 1 was given to a message."""
        return first < stop and stop - first > self._skipped(first) - self._skipped(stop)

    async def stored(self, offset: int) -> StoredBatch | None:
        """The batch that holds or follows an offset; None where nothing more can be read. OffsetOutOfRange below the
        start."""
        if (found := self.stored_near(offset)) is not None or offset >= self.end:
            return found
        read = await self._shard.read(self.data, offset, _READ_BYTES)
        if not read:
            return None
        first, *others = [StoredBatch.of(data) for data in read[:_READ_BATCHES]]
        for stored in reversed(others):
            self._keep(stored)
        return self._keep(first)

    def stored_near(self, offset: int) -> StoredBatch | None:
        """As stored(), without waiting: None too where a file would have to be read."""
        for stored in self._cached:
            if stored.first <= offset < stored.end:
                return stored
        tail = self.data.tail
        if not self.start <= offset < self.end:
            return None
        if not tail or offset < tail[0].first:
            recent = self.data.recent.find(offset)
            return None if recent is None else self._keep(StoredBatch.of(recent.data))
        # Mostly it is the last one that is asked for.
        batch = tail[-1] if offset >= tail[-1].first else tail[bisect_right(tail, offset, key=_first) - 1]
        if offset >= batch.end:
            following = bisect_right(tail, offset, key=_first)
            if following == len(tail):
                return None
            batch = tail[following]
        return self._keep(StoredBatch.of(batch.data)) if batch.end <= self.end else None

    def batches_from(self, offset: int) -> list[Entry]:
        """Some batches that are still in memory, in order, from the one that holds an offset on; the last ones may not
        be readable yet."""
        data = self.data
        if offset < data.bounds.start:
            return []
        tail = data.tail
        if not tail or offset < tail[0].first:
            recent = data.recent.find(offset)
            return [] if recent is None else [recent]
        if offset >= tail[-1].first:
            return tail[-1:]
        at = bisect_right(tail, offset, key=_first) - 1
        return tail[at : at + _BATCHES_AT_ONCE]

    def forget_batches(self) -> None:
        self._cached.clear()

    def _keep(self, stored: StoredBatch) -> StoredBatch:
        return self._cache.keep(self._cached, stored)

    @property
    def name(self) -> LogName:
        return self.data.name


def _first(batch: Entry) -> int:
    return batch.first
