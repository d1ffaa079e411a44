"""How far a sink's query is: rows, speed, and what waits in its queues."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.spark.offsets import BEHIND


class SourceProgress(Protocol):
    """Of Spark: offsets are JSON, those of other formats too."""

    @property
    def endOffset(self) -> str: ...

    @property
    def latestOffset(self) -> str: ...


class QueryProgress(Protocol):
    """Of Spark: one micro-batch."""

    @property
    def batchId(self) -> int: ...

    @property
    def numInputRows(self) -> int: ...

    @property
    def processedRowsPerSecond(self) -> float: ...

    @property
    def batchDuration(self) -> int: ...

    @property
    def sources(self) -> Sequence[SourceProgress]: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """The newest micro-batch of a sink. `lags` are messages that wait, by queue."""

    sink: str
    batch: int
    rows: int
    rows_per_s: float
    batch_ms: int
    lags: dict[str, int]

    @property
    def lag(self) -> int:
        return sum(self.lags.values())


def progress_of(sink: str, found: QueryProgress) -> Progress:
    rows_per_s = found.processedRowsPerSecond
    return Progress(
        sink=sink,
        batch=found.batchId,
        rows=found.numInputRows,
        # Spark says NaN or infinity of a micro-batch without rows or time.
        rows_per_s=rows_per_s if 0 <= rows_per_s < 1e15 else 0.0,
        batch_ms=found.batchDuration,
        lags=lags_of(found.sources),
    )


def lags_of(sources: Iterable[SourceProgress]) -> dict[str, int]:
    """By queue; one that several sources read counts once, with the largest. Sources of files tell nothing."""
    found: dict[str, int] = {}
    for source in sources:
        for queue, lag in _told(source).items():
            found[queue] = max(found.get(queue, 0), lag)
    return found


def _told(source: SourceProgress) -> dict[str, int]:
    """Rows, by queue: offsets may have none."""
    try:
        latest = json.loads(source.latestOffset or "null")
    except ValueError:
        # Offsets of another format.
        return {}
    return dict(latest.get(BEHIND, {})) if isinstance(latest, dict) else {}
