"""Which task reads what, and how much a micro-batch takes. Pure arithmetic on offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.spark.offsets import OffsetRange, PartitionId, Positions

Ranges = tuple[OffsetRange, ...]
"""What one task reads, one after the other."""


class Split(NamedTuple):
    """How offsets become tasks."""

    min_tasks: int = 1
    # A task costs Spark about 70 ms, and 50,000 rows are read in 25: below that, fewer tasks end sooner.
    pack_rows: int = 50_000
    # About a second of reading: tasks of this size fill the cores evenly, and losing one costs no more than that.
    split_rows: int = 1_000_000


USUAL_SPLIT = Split()


def plan(ranges: Sequence[OffsetRange], split: Split) -> list[Ranges]:
    """Every offset in exactly one task, in order. Ranges over `split_rows` are cut into equal parts, all of them into
    smaller ones where there would be fewer than `min_tasks`; neighbours are packed together up to `pack_rows`."""
    total = sum(each.offsets for each in ranges)
    pieces = [piece for each in ranges for piece in _cut(each, _parts(each.offsets, total, split))]
    packed = list(_packed(pieces, min(split.pack_rows, -(-total // split.min_tasks))))
    return packed if len(packed) >= split.min_tasks else [(piece,) for piece in pieces]


def _parts(offsets: int, total: int, split: Split) -> int:
    """Of a range: its share of the tasks that there must be, rounded up, or more where it is large."""
    share = -(-offsets * split.min_tasks // total)
    return max(min(share, offsets), -(-offsets // split.split_rows))


def _cut(whole: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    """Into equal ones."""
    for number in range(parts):
        start = whole.start + whole.offsets * number // parts
        stop = whole.start + whole.offsets * (number + 1) // parts
        yield whole._replace(start=start, stop=stop)


def _packed(pieces: Iterable[OffsetRange], pack_rows: int) -> Iterator[Ranges]:
    waiting: list[OffsetRange] = []
    rows = 0
    for piece in pieces:
        if waiting and rows + piece.offsets > pack_rows:
            yield tuple(waiting)
            waiting, rows = [], 0
        waiting.append(piece)
        rows += piece.offsets
    if waiting:
        yield tuple(waiting)


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
