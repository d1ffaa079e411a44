"""What a report counts in rows: by time, by size, by key. Counts of pieces add up, and all of them are bounded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Of one piece; a page shows fewer.
MOST_SPANS = 4_096
FINEST_MS = 1_000
# So many different keys are counted exactly; of more, those that are rare when the table is full are forgotten.
MOST_KEYS = 50_000
KEPT_KEYS = 5_000


@dataclass(slots=True)
class TimeCounts:
    """Messages and bytes in spans of `width_ms`, a power of two times FINEST_MS, so that spans of one width make up
    those of the next: there are never more than MOST_SPANS."""

    width_ms: int = FINEST_MS
    rows: Counter[int] = field(default_factory=Counter)
    """by the number of the span since 1970"""
    size_bytes: Counter[int] = field(default_factory=Counter)

    def add(self, times_ms: pa.Array, sizes: pa.Array) -> None:
        spans = pc.divide(times_ms, pa.scalar(self.width_ms, pa.int64()))
        table = (
            pa.table({"span": spans, "size": sizes}).group_by("span").aggregate([("size", "sum"), ("size", "count")])
        )
        columns = (table.column(name).to_pylist() for name in ("span", "size_count", "size_sum"))
        for span, rows, size_bytes in zip(*columns, strict=True):
            self.rows[span] += rows
            self.size_bytes[span] += size_bytes
        while len(self.rows) > MOST_SPANS:
            self.widen()

    def merge(self, other: TimeCounts) -> None:
        while self.width_ms < other.width_ms:
            self.widen()
        factor = self.width_ms // other.width_ms
        for span, rows in other.rows.items():
            self.rows[span // factor] += rows
            self.size_bytes[span // factor] += other.size_bytes[span]
        while len(self.rows) > MOST_SPANS:
            self.widen()

    def widen(self) -> None:
        self.width_ms *= 2
        self.rows, self.size_bytes = _halved(self.rows), _halved(self.size_bytes)

    def shown(self, most: int) -> TimeCounts:
        """The same from the first span to the last in at most so many, those without messages among them."""
        found = TimeCounts(self.width_ms, Counter(self.rows), Counter(self.size_bytes))
        while found.rows and max(found.rows) - min(found.rows) >= most:
            found.widen()
        for span in range(min(found.rows, default=0), max(found.rows, default=-1) + 1):
            found.rows[span] += 0
        return found


@dataclass(slots=True)
class KeyCounts:
    """How often each key occurs; `is_exact` is false once rare ones had to be forgotten."""

    rows: Counter[bytes] = field(default_factory=Counter)
    is_exact: bool = True

    def add(self, keys: pa.Array) -> None:
        self.rows.update(counted(keys.drop_null()))
        self._forget()

    def merge(self, other: KeyCounts) -> None:
        self.rows.update(other.rows)
        self.is_exact = self.is_exact and other.is_exact
        self._forget()

    def _forget(self) -> None:
        if len(self.rows) > MOST_KEYS:
            self.rows, self.is_exact = Counter(dict(self.rows.most_common(KEPT_KEYS))), False


@dataclass(slots=True)
class RowCounts:
    """Of a range of rows."""

    rows: int = 0
    size_bytes: int = 0
    unkeyed: int = 0
    times: TimeCounts = field(default_factory=TimeCounts)
    sizes: Counter[int] = field(default_factory=Counter)
    """by the power of two that a value is smaller than: 0 is empty, 4 is 8 to 15 bytes"""
    keys: KeyCounts = field(default_factory=KeyCounts)

    COLUMNS = ("timestamp", "key", "value")

    def add(self, batch: pa.RecordBatch) -> None:
        """With COLUMNS."""
        sizes = pc.binary_length(batch.column("value")).cast(pa.int64())
        self.rows += batch.num_rows
        self.size_bytes += pc.sum(sizes).as_py() or 0
        self.unkeyed += batch.column("key").null_count
        self.times.add(_ms(batch.column("timestamp")), sizes)
        self.sizes.update(powers(sizes))
        self.keys.add(batch.column("key"))

    def merge(self, other: RowCounts) -> None:
        self.rows += other.rows
        self.size_bytes += other.size_bytes
        self.unkeyed += other.unkeyed
        self.times.merge(other.times)
        self.sizes.update(other.sizes)
        self.keys.merge(other.keys)


def powers(numbers: pa.Array) -> Counter[int]:
    """How many are 0, 1, 2..3, 4..7, and so on."""
    found = pc.floor(pc.add(pc.log2(pc.max_element_wise(numbers, 1).cast(pa.float64())), 1)).cast(pa.int64())
    found = pc.if_else(pc.equal(numbers, 0), 0, found)
    return counted(found)


def counted(values: pa.Array) -> Counter[Any]:
    """How often each occurs."""
    found = pc.value_counts(values)
    return Counter(dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)))


def _ms(times: pa.Array) -> pa.Array:
    return pc.divide(times.cast(pa.int64()), pa.scalar(1_000, pa.int64()))


def _halved(counts: Counter[int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for span, count in counts.items():
        found[span // 2] += count
    return found
