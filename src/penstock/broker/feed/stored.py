"""A stored batch as groups look at it: offsets and key hashes are worked out once for all of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from penstock.core.ports import Buffer
from penstock.kernels import hashing, plain, rows
from penstock.log.batch import EXPIRY, KEY, TOPIC, Batch, Row
from penstock.log.properties import user_property
from penstock.log.view import has_native, viewed
from penstock.queues.deadletter import REDRIVE_GROUP, REDRIVEN

ONE_KEY = 1
"""every message of a strictly ordered partition"""
# The batch, its body again, and what native properties become: text is mostly a third longer.
_WITH_VIEW = 3


class StoredBatch(msgspec.Struct, eq=False, gc=False):
    """Never changed after it was made. Its rows are the messages at `offsets`. The garbage collector passes it over:
    nothing that it refers to refers to anything else."""

    data: Buffer
    """The checksum was looked at when it was read, or it has not left this process yet."""
    first: int
    end: int
    is_dense: bool
    """It is plain (kernels/plain) and has a record for each offset: its columns are looked at when they are asked
    for."""
    _batch: Batch | None = None
    _offsets: array[int] | None = None
    _hashes: array[int] | None = None
    _redriven_to: list[bytes | None] | None = None
    _view: Batch | None = None

    @classmethod
    def of(cls, data: Buffer) -> StoredBatch:
        batch = Batch.parse(data, verify=False)
        return cls(data, batch.header.base_offset, batch.next_offset, False, batch)

    def __repr__(self) -> str:
        """Without its messages: this may end up in a line of a log."""
        return f"<StoredBatch {self.first}..{self.end}>"

    @property
    def batch(self) -> Batch:
        found = self._batch
        if found is None:
            found = self._batch = Batch.parse(self.data, verify=False)
        return found

    @property
    def has_native(self) -> bool:
        """Whether readers are shown another batch than the one that is stored."""
        return has_native(self.data)

    @property
    def held_bytes(self) -> int:
        """About what it keeps in memory, the view of one that has another included."""
        return _WITH_VIEW * len(self.data) if self.has_native else len(self.data)

    @property
    def view(self) -> Batch:
        """As readers are shown it: see log/view."""
        found = self._view
        if found is None:
            found = self._view = viewed(self.batch)
        return found

    def value(self, row: int) -> bytes:
        """Of a dense batch without a look at its columns, which for a few small messages costs most."""
        if self.is_dense and self._batch is None:
            return plain.value_of(self.data, row)
        return self.batch.value(row)

    @property
    def offsets(self) -> array[int]:
        found = self._offsets
        if found is None:
            found = self._offsets = self.batch.offsets()
        return found

    def offset_of(self, row: int) -> int:
        return self.first + row if self.is_dense else self.offsets[row]

    @property
    def is_redriven(self) -> bool:
        return self.batch.header.producer_id == REDRIVEN

    def __len__(self) -> int:
        return self.batch.header.count

    def holds(self, offset: int) -> bool:
        return self.first <= offset < self.end

    def row_from(self, offset: int) -> int:
        """The first row at or behind an offset."""
        if offset <= self.first:
            return 0
        return bisect_left(self.offsets, offset)

    def message(self, row: int) -> Row:
        """As an object, for what is rare."""
        return self.messages([row])[0]

    def messages(self, numbers: Sequence[int]) -> list[Row]:
        batch, offsets, timestamps = self.batch, self.offsets, self.batch.timestamps()
        return [
            Row(
                offsets[row],
                timestamps[row],
                batch.key(row),
                batch.value(row),
                batch.topic(row),
                batch.properties(row),
                batch.native(row),
                batch.expiry(row),
            )
            for row in numbers
        ]

    def key_hashes(self) -> array[int] | None:
        """Of each row, 0 where it has no key; None if none has."""
        if self._hashes is None:
            column = self.batch.var_column(KEY)
            if column is None:
                return None
            count, offsets, data = column
            self._hashes = array("Q", bytes(8 * count))
            hashing.hash_column(data, offsets.cast("i"), count, self._hashes)
        return self._hashes

    def one_key(self) -> array[int]:
        return array("Q", [ONE_KEY]) * len(self.offsets)

    def expired(self, now: int, ttl_ms: int) -> bytearray | None:
        """A mark for each row that is too old at `now`; None if no row is."""
        header, count = self.batch.header, len(self.offsets)
        if ttl_ms and header.max_timestamp + ttl_ms <= now:
            return bytearray(b"\x01") * count
        is_aging = ttl_ms and header.base_timestamp + ttl_ms <= now
        expiries = self.batch.fixed_column(EXPIRY)
        if not is_aging and expiries is None:
            return None
        marks, found = bytearray(count), 0
        if is_aging:
            times = array("q", [time + ttl_ms for time in self.batch.timestamps()])
            found += rows.mark_past(memoryview(times), now, marks)
        if expiries is not None:
            found += rows.mark_past(expiries.cast("q"), now, marks)
        return marks if found else None

    def topics(self) -> list[bytes] | None:
        """The dictionary of topics; None where the batch has none."""
        column = self.batch.var_column(TOPIC)
        if column is None:
            return None
        count, offsets, data = column
        places = offsets.cast("i")
        return [bytes(data[places[i] : places[i + 1]]) for i in range(count)]

    def mark_topics(self, marks: bytearray, out: bytearray) -> int:
        """out |= marks of the row's topic. How many rows are marked then."""
        numbers = self.batch.fixed_column(TOPIC)
        assert numbers is not None
        return rows.mark_by_number(numbers.cast("i"), marks, out)

    def mark_redriven(self, group: bytes, out: bytearray) -> None:
        """A mark for each row that was redriven to another group than this one."""
        if self._redriven_to is None:
            name, properties = REDRIVE_GROUP.encode(), self.batch.properties
            self._redriven_to = [user_property(properties(row) or b"", name) for row in range(len(self.offsets))]
        for row, wanted in enumerate(self._redriven_to):
            if wanted is not None and wanted != group:
                out[row] = 1


# Of single messages a bound in bytes would keep that many objects that the garbage collector has to look at.
_MOST_BATCHES = 8192


class StoredCache:
    """A bound in bytes and in number over the batches that all partitions keep at hand: what came first goes first. Of
    one partition the last few stay: its groups are mostly at its end, or go through it side by side."""

    def __init__(self, limit_bytes: int = 64 << 20, each: int = 8) -> None:
        self._limit_bytes, self._each, self._bytes = limit_bytes, each, 0
        self._order: OrderedDict[StoredBatch, list[StoredBatch]] = OrderedDict()
        """with the list that each is in"""

    def keep(self, cached: list[StoredBatch], stored: StoredBatch) -> StoredBatch:
        """At the front of a partition's list."""
        cached.insert(0, stored)
        if len(cached) > self._each and self._order.pop(last := cached.pop(), None) is not None:
            self._bytes -= last.held_bytes
        self._order[stored] = cached
        self._bytes += stored.held_bytes
        while (self._bytes > self._limit_bytes and len(self._order) > 1) or len(self._order) > _MOST_BATCHES:
            oldest, other = self._order.popitem(last=False)
            self._bytes -= oldest.held_bytes
            if oldest in other:
                other.remove(oldest)
        return stored
