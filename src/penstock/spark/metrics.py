"""How far a stream is behind, in the progress of its query: Spark asks a Python source for its latest offsets and for
nothing else, so that the numbers stand beside these."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.spark.offsets import METRICS, PartitionId, Positions
from penstock.spark.places import Seen, row_maps

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

_NAMES = ("avgOffsetsBehindLatest", "maxOffsetsBehindLatest", "minOffsetsBehindLatest", "rowsBehindLatest")


def waiting_rows(reached: Positions, seen: Seen) -> dict[PartitionId, int]:
    """That are there and not read when the micro-batch is done that ends at `reached`."""
    maps = row_maps(seen)
    return {source: maps[source].rows(reached.get(source, each.start), each.end) for source, each in seen.items()}


def by_queue(waiting: Mapping[PartitionId, int]) -> dict[str, int]:
    queues = Counter[str]()
    for source, count in waiting.items():
        queues[source.queue] += count
    return dict(sorted(queues.items()))


def behind(waiting: Mapping[PartitionId, int], seen: Seen) -> dict[str, int]:
    """What waits: rows of a partition on average, at most and at least, by the names of Kafka's connector; rows and,
    where sizes are known, bytes in all."""
    rows = list(waiting.values()) or [0]
    numbers = dict(zip(_NAMES, (sum(rows) // len(rows), max(rows), min(rows), sum(rows)), strict=True))
    if any(each.size_bytes for each in seen.values()):
        numbers["bytesBehindLatest"] = int(sum([count * seen[source].row_bytes for source, count in waiting.items()]))
    return numbers


def source_metrics(progress: StreamingQueryProgress | Mapping[str, Any]) -> list[dict[str, int]]:
    """Of each source of a query that reads queues, from `query.lastProgress` or what a listener is given; empty for one
    that tells none."""
    told: Mapping[str, list[Mapping[str, object]]] = (
        json.loads(progress.json) if hasattr(progress, "json") else dict(progress)
    )
    return [_of_source(source) for source in told.get("sources", [])]


def _of_source(source: Mapping[str, object]) -> dict[str, int]:
    latest = source.get("latestOffset")
    offsets = json.loads(latest) if isinstance(latest, str) else latest
    return dict(offsets.get(METRICS, {})) if isinstance(offsets, Mapping) else {}
