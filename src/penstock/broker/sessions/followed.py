"""A log that is folded into memory: each batch once, when it is committed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from penstock.broker.feed.stored import StoredBatch, StoredCache
from penstock.core.ports import Buffer
from penstock.log.journal.frames import Entry
from penstock.log.partition import Log
from penstock.log.shard import Shard

_READ_BYTES = 64 << 10
# Of what one reading brings.
_READ_BATCHES = 8


class FollowedLog:
    """Used from the loop. What `apply` is given is committed, in order, and before whoever waits for the commit goes
    on; it must not raise, because the commit is done."""

    def __init__(self, shard: Shard, log: Log, cache: StoredCache) -> None:
        self.log = log
        self.applied = log.start
        """where the next batch to be folded begins"""
        self._shard, self._cache = shard, cache
        self._cached: list[StoredBatch] = []

    def follow(self, apply: Callable[[StoredBatch], None]) -> None:
        """From now on; what lies before `applied` is not given again."""
        self.log.on_commit = lambda _: self.catch_up(apply)

    def catch_up(self, apply: Callable[[StoredBatch], None]) -> None:
        """Fold what is committed and was not folded yet."""
        while self.applied < self.log.visible_end:
            stored = self.near(self.applied) or self._read_now(self.applied)
            if stored is None:
                self.applied = self.log.visible_end  # offsets that were skipped when the log was opened
                return
            self.applied = stored.end
            apply(stored)

    async def stored(self, offset: int) -> StoredBatch | None:
        """The batch that holds or follows an offset; None where nothing more can be read. OffsetOutOfRange below the
        start."""
        if (found := self.near(offset)) is not None or offset >= self.log.visible_end:
            return found
        return self._first_of(await self._shard.read(self.log, offset, _READ_BYTES))

    def near(self, offset: int) -> StoredBatch | None:
        """As stored(), without waiting: None too where a file would have to be read."""
        for stored in self._cached:
            if stored.first <= offset < stored.end:
                return stored
        log = self.log
        if not log.start <= offset < log.visible_end:
            return None
        batch = _in_tail(log.tail, offset) or log.recent.find(offset)
        if batch is None or batch.end > log.visible_end:
            return None
        return self._cache.keep(self._cached, StoredBatch.of(batch.data))

    def _read_now(self, offset: int) -> StoredBatch | None:
        """The keeper was faster than the news of the commit, and did not keep the batch: it is in the page cache."""
        return self._first_of(self._shard.reader.read(self.log, offset, _READ_BYTES))

    def _first_of(self, read: list[Buffer]) -> StoredBatch | None:
        if not read:
            return None
        first, *others = [StoredBatch.of(data) for data in read[:_READ_BATCHES]]
        for stored in reversed(others):
            self._cache.keep(self._cached, stored)
        return self._cache.keep(self._cached, first)


def _in_tail(tail: list[Entry], offset: int) -> Entry | None:
    place = bisect_right(tail, offset, key=_first) - 1
    return tail[place] if place >= 0 and offset < tail[place].end else None


def _first(batch: Entry) -> int:
    return batch.first
