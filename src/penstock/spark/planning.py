"""Which task reads what, and how much a micro-batch takes. Pure arithmetic on rows and offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.core.processors import processors
from penstock.log.reading.extents import RowMap
from penstock.spark.offsets import OffsetRange, PartitionId, Positions

Ranges = tuple[OffsetRange, ...]
"""What one task reads, one after the other."""


class Split(NamedTuple):
    """How rows become tasks."""

    min_tasks: int = 1
    # A task costs Spark about 40 ms, whatever it reads, and 50,000 rows are read in 25: below that, fewer end sooner.
    pack_rows: int = 50_000
    # About two seconds of reading: losing a task costs no more.
    split_rows: int = 3_000_000
    # Of the driver: where executors have others, `min_tasks` says how many tasks there are to be.
    cores: int = processors()


USUAL_SPLIT = Split()


Rows = Mapping[PartitionId, RowMap]
"""Where rows lie among the offsets of each partition; of one that is not there, every offset counts as one."""

EVERY_OFFSET = RowMap((), 0, 0)


def plan(ranges: Sequence[OffsetRange], split: Split, rows: Rows) -> list[Ranges]:
    """Every offset that may have a row in exactly one task, in order. All tasks read as much, so that the cores end
    together: at most `split_rows`, and about `pack_rows` at least where not `min_tasks` asks for more of them."""
    filled = [each for each in ranges if not _map_of(rows, each.source).is_empty(each.start, each.stop)]
    counts = [max(_map_of(rows, each.source).rows(each.start, each.stop), 1) for each in filled]
    total = sum(counts)
    return list(_dealt(list(zip(filled, counts, strict=True)), total, _tasks(total, split), rows))


def _map_of(rows: Rows, source: PartitionId) -> RowMap:
    return rows.get(source, EVERY_OFFSET)


def _tasks(total: int, split: Split) -> int:
    """As few as there can be, and then so many that none of the cores has one less."""
    needed, worthwhile = -(-total // split.split_rows), -(-total // split.pack_rows)
    even = -(-needed // split.cores) * split.cores
    return min(max(needed, min(even, worthwhile), split.min_tasks), total)


def _dealt(ranges: Iterable[tuple[OffsetRange, int]], total: int, tasks: int, rows: Rows) -> Iterator[Ranges]:
    """Cut where each of the tasks has its share of rows."""
    task: list[OffsetRange] = []
    at, number = 0, 1
    for each, count in ranges:
        start, stop_at = each.start, at + count
        while at < stop_at:
            share_stop = total * number // tasks
            is_last = stop_at <= share_stop
            stop = each.stop if is_last else _map_of(rows, each.source).after(start, share_stop - at)
            task.append(each._replace(start=start, stop=stop))
            start, at = stop, min(stop_at, share_stop)
            if at == share_stop:
                yield tuple(task)
                task, number = [], number + 1


def admitted(
    start: Mapping[PartitionId, int],
    end: Mapping[PartitionId, int],
    budget: float,
    cost: Mapping[PartitionId, float],
    rows: Rows,
) -> Positions:
    """How far a micro-batch goes from `start` towards `end` for `budget`, where a row costs `cost` (1 if it is not
    there): to `end` if that is within it, else each partition its share by what it has waiting, so that none starves.
    At least one row moves if any can; offsets without rows cost nothing."""
    waiting = {source: _map_of(rows, source).rows(start.get(source, 0), end[source]) for source in end}
    total = sum([count * cost.get(source, 1.0) for source, count in waiting.items()])
    if total <= budget:
        return dict(end)
    taken = {source: int(count * budget / total) for source, count in waiting.items()}
    _spend_rest(taken, waiting, cost, budget)
    return {source: _reached(source, start.get(source, 0), end[source], taken, waiting, rows) for source in end}


def _reached(
    source: PartitionId,
    start: int,
    end: int,
    taken: Mapping[PartitionId, int],
    waiting: Mapping[PartitionId, int],
    rows: Rows,
) -> int:
    if taken[source] == waiting[source]:
        return max(start, end)
    return _map_of(rows, source).after(start, taken[source]) if taken[source] else start


def _spend_rest(
    taken: dict[PartitionId, int], waiting: Mapping[PartitionId, int], cost: Mapping[PartitionId, float], budget: float
) -> None:
    """What rounding left over goes to the partitions that wait with most, a row each."""
    left = budget - sum(count * cost.get(source, 1.0) for source, count in taken.items())
    for source in sorted(waiting, key=lambda each: (-waiting[each], each)):
        price = cost.get(source, 1.0)
        is_first = not any(taken.values())
        if waiting[source] > taken[source] and (price <= left or is_first):
            taken[source] += 1
            left -= price
