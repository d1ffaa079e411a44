"""What a filter says about the places of rows: Arrow proves where it cannot hold, and nothing is read there.

An expression of Arrow cannot be taken apart. But a fragment of a dataset that has a guarantee ("its offsets are below
70") is left out where a filter contradicts it; so the first offset that may fulfil a filter is found by halving. Arrow
takes numbers for real ones: "below 70" has to be said as "at most 69" to contradict "above 69"."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from penstock.tables.schema import SCHEMA

_TIMESTAMP = SCHEMA.field("timestamp").type
_MICROSECONDS = 1_000


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole numbers; `until` is not in it."""

    start: int
    until: int


ALL_TIMES_MS = Interval(0, 253_402_300_800_000)
"""1970 to the year 10000"""


class FilterBounds:
    """Of one filter over a table, None for none. Never narrower than the rows that it lets through."""

    def __init__(self, expression: pc.Expression | None, schema: pa.Schema, queue: str) -> None:
        self._expression, self._schema = expression, schema
        self._is_queue = pc.field("queue") == queue
        # The name of every column that it looks at is in its text, and perhaps some others.
        text = "" if expression is None else str(expression)
        self.columns = [name for name in schema.names if name in text]

    def may_have(self, partition: int) -> bool:
        return not self.columns or self._may_hold(_is_partition(partition))

    def offsets(self, partition: int, start: int, until: int) -> Interval:
        """Of start..until those that rows of the partition may have."""
        if "offset" not in self.columns or start >= until:
            return Interval(start, until)
        guaranteed, offset = _is_partition(partition), pc.field("offset")
        return _narrowed(
            Interval(start, until),
            lambda number: self._may_hold(guaranteed & (offset <= number - 1)),
            lambda number: self._may_hold(guaranteed & (offset >= number)),
        )

    def times_ms(self) -> Interval:
        """Of ALL_TIMES_MS those that rows may have."""
        if "timestamp" not in self.columns:
            return ALL_TIMES_MS
        time = pc.field("timestamp")
        return _narrowed(
            ALL_TIMES_MS,
            lambda number: self._may_hold(time <= _moment(number, -1)),
            lambda number: self._may_hold(time >= _moment(number)),
        )

    def _may_hold(self, guarantee: pc.Expression) -> bool:
        """For any row of which that is true."""
        one = ds.FileSystemDataset.from_paths(
            ["rows"],
            schema=self._schema,
            format=ds.IpcFileFormat(),
            filesystem=fs.LocalFileSystem(),
            partitions=[guarantee & self._is_queue],
        )
        return next(iter(one.get_fragments(self._expression)), None) is not None


def _narrowed(whole: Interval, may_be_below: Callable[[int], bool], may_be_from: Callable[[int], bool]) -> Interval:
    """The smallest part that may have rows; an empty one if none may."""
    above_first = bisect_left(range(whole.start, whole.until + 1), True, key=may_be_below) + whole.start
    until = bisect_left(range(whole.start, whole.until), True, key=lambda number: not may_be_from(number)) + whole.start
    return Interval(max(whole.start, above_first - 1), max(until, above_first - 1))


def _is_partition(number: int) -> pc.Expression:
    return pc.field("partition") == pa.scalar(number, pa.int32())


def _moment(time_ms: int, microseconds: int = 0) -> pa.Scalar:
    return pa.scalar(time_ms * _MICROSECONDS + microseconds, _TIMESTAMP)
