"""Which task reads what, and how much a micro-batch takes. Pure arithmetic on offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.core.processors import processors
from penstock.spark.offsets import OffsetRange, PartitionId, Positions

Ranges = tuple[OffsetRange, ...]
"""What one task reads, one after the other."""


class Split(NamedTuple):
    """How offsets become tasks."""

    min_tasks: int = 1
    # A task costs Spark about 40 ms, whatever it reads, and 50,000 rows are read in 25: below that, fewer end sooner.
    pack_rows: int = 50_000
    # About two seconds of reading: losing a task costs no more.
    split_rows: int = 3_000_000
    # Of the driver: where executors have others, `min_tasks` says how many tasks there are to be.
    cores: int = processors()


USUAL_SPLIT = Split()


def plan(ranges: Sequence[OffsetRange], split: Split) -> list[Ranges]:
    """Every offset in exactly one task, in order. All tasks read as much, so that the cores end together: at most
    `split_rows`, and about `pack_rows` at least where not `min_tasks` asks for more of them."""
    total = sum(each.offsets for each in ranges)
    return list(_dealt(ranges, total, _tasks(total, split)))


def _tasks(total: int, split: Split) -> int:
    """As few as there can be, and then so many that none of the cores has one less."""
    needed, worthwhile = -(-total // split.split_rows), -(-total // split.pack_rows)
    even = -(-needed // split.cores) * split.cores
    return min(max(needed, min(even, worthwhile), split.min_tasks), total)


def _dealt(ranges: Iterable[OffsetRange], total: int, tasks: int) -> Iterator[Ranges]:
    """Cut where each of the tasks has its share."""
    task: list[OffsetRange] = []
    at, number = 0, 1
    for each in ranges:
        start = each.start
        while start < each.stop:
            share_stop = total * number // tasks
            piece = each._replace(start=start, stop=min(each.stop, start + share_stop - at))
            task.append(piece)
            start, at = piece.stop, at + piece.offsets
            if at == share_stop:
                yield tuple(task)
                task, number = [], number + 1


def admitted(
    start: Mapping[PartitionId, int], end: Mapping[PartitionId, int], budget: float, cost: Mapping[PartitionId, float]
) -> Positions:
    """How far a micro-batch goes from `start` towards `end` for `budget`, where an offset costs `cost` (1 if it is not
    there): to `end` if that is within it, else each partition its share by what it has waiting, so that none starves.
    At least one offset moves if any can."""
    waiting = {source: end[source] - start.get(source, 0) for source in end}
    price = {source: max(count, 0) * cost.get(source, 1.0) for source, count in waiting.items()}
    total = sum(price.values())
    if total <= budget:
        return dict(end)
    taken = {source: max(int(count * budget / total), 0) for source, count in waiting.items()}
    _spend_rest(taken, waiting, cost, budget)
    return {source: start.get(source, 0) + taken[source] for source in end}


def _spend_rest(
    taken: dict[PartitionId, int], waiting: Mapping[PartitionId, int], cost: Mapping[PartitionId, float], budget: float
) -> None:
    """What rounding left over goes to the partitions that wait with most, an offset each."""
    left = budget - sum(count * cost.get(source, 1.0) for source, count in taken.items())
    for source in sorted(waiting, key=lambda each: (-waiting[each], each)):
        price = cost.get(source, 1.0)
        is_first = not any(taken.values())
        if waiting[source] > taken[source] and (price <= left or is_first):
            taken[source] += 1
            left -= price
