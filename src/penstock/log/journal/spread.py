"""One set of columns for many logs: a publish that is scattered by key, or what settled in many partitions."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import accumulate

from penstock.kernels import spread as kernel
from penstock.kernels.staged import any_apart
from penstock.log.batch import flags_of
from penstock.log.columns import Columns, Spans
from penstock.log.header import MAX_BODY_BYTES
from penstock.log.partition import Log

_NO_INTS, _NO_WORDS = array("i"), array("q")
_NO_SPANS = Spans(_NO_INTS, _NO_INTS)


@dataclass(slots=True)
class Spread:
    """The rows lie in the order of the logs, of which none occurs twice: the next counts[i] of them are for logs[i]."""

    columns: Columns
    counts: array[int]
    """int32, none of them 0"""
    logs: list[Log]

    @property
    def is_apart(self) -> bool:
        """Batches that are compressed, or volatile, are made one by one: see parts()."""
        return any_apart(self.logs)

    def parts(self) -> list[tuple[Log, Columns]]:
        """The same with columns for each log."""
        if len(self.logs) == 1:
            return [(self.logs[0], self.columns)]
        stops = accumulate(self.counts)
        parts = [self.columns.part(stop - count, stop) for count, stop in zip(self.counts, stops, strict=True)]
        return list(zip(self.logs, parts, strict=True))

    def sealed(self, firsts: array[int], epochs: array[int], timestamps: array[int]) -> list[bytearray]:
        """A batch for each log, whole and uncompressed. TooLarge, InvalidArgument as log.batch.encode()."""
        columns = self.columns
        return kernel.build(
            MAX_BODY_BYTES,
            _rows(columns),
            self.counts,
            firsts,
            epochs,
            timestamps,
            columns.producer_id,
            columns.producer_epoch,
            columns.base_sequence,
        )


def _rows(columns: Columns) -> kernel.Rows:
    return kernel.Rows(
        columns.source,
        flags_of(columns),
        _NO_WORDS if columns.expiry is None else columns.expiry,
        _NO_INTS if columns.topic_index is None else columns.topic_index,
        _pair(columns.topics),
        _pair(columns.key),
        _pair(columns.properties),
        _pair(columns.native),
        _pair(columns.value),
    )


def _pair(spans: Spans | None) -> tuple[array[int], array[int]]:
    found = spans or _NO_SPANS
    return found.starts, found.ends
