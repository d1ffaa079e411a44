"""Rows on their way to logs: what a topic feeds is a table, and each row goes to one lane of every queue that it feeds.

A lane is a partition of a queue; those of a queue have numbers one behind the other. Columns are int32, places int64:
of a row with a key its hash, of one without a key -1 less the number of its sender."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import hashing
from penstock.kernels.takers import Taker

Laid: TypeAlias = "tuple[array[int], array[int], array[int], int, int]"
"""rows in the order of their lanes; how many each lane gets; the first lane of each queue, and one behind the last; the
place of the first queue that is deleted or does not take a value, -1 if all do, and the length of that value"""
_ZERO = array("i", [0])


def place_by_key(source: Buffer, starts: array[int], ends: array[int], places: array[int]) -> int:
    """places[i] ('q') becomes the hash of key source[starts[i]:ends[i]], unless that is empty."""
    for i in range(len(places)):
        if starts[i] != ends[i]:
            places[i] = hashing.murmur3(source, starts[i], ends[i])
    return 0


def lay_out(
    queues: Sequence[Taker],
    index: array[int],
    begins: array[int],
    numbers: array[int],
    places: array[int],
    steps: array[int] | None,
    starts: array[int],
    ends: array[int],
    counts: array[int],
) -> Laid:
    """Row i, of topic index[i], goes to the queues numbers[begins[index[i]]:begins[index[i] + 1]], in each to the
    partition of its place; where that is a sender's, so many `steps` of the queue further on: without it, none of the
    queues spreads them. Values go from starts[i] to ends[i]. `counts`, zeros on entry, get the rows of each queue."""
    first_lanes = _ZERO * (len(queues) + 1)
    lane_of = first_lanes
    for i in range(len(queues)):
        taker = queues[i]
        if taker.partitions < 1 or (steps is not None and steps[i] < 0):
            raise InvalidArgument("a queue has at least one partition, and steps lead forward")
        lane_of[i + 1] = lane_of[i] + taker.partitions
    total = 0
    for i in range(len(index)):
        total += begins[index[i] + 1] - begins[index[i]]
    fed, of_row, longest = _ZERO * total, _ZERO * total, _ZERO * len(queues)
    lane_counts = _ZERO * lane_of[len(queues)]
    out, lanes, sizes, filled = fed, of_row, longest, lane_counts
    count = 0
    for i in range(len(index)):
        place, size = places[i], ends[i] - starts[i]
        for target in range(begins[index[i]], begins[index[i] + 1]):
            queue = numbers[target]
            at = place if place >= 0 else -1 - place
            if place < 0 and steps is not None:
                at += steps[queue]
            lane = lane_of[queue] + at % (lane_of[queue + 1] - lane_of[queue])
            out[count] = i
            lanes[count] = lane
            filled[lane] += 1
            count += 1
            counts[queue] += 1
            if size > sizes[queue]:
                sizes[queue] = size
    rows = fed if len(lane_counts) == 1 else _scattered(fed, of_row, lane_counts)
    refusing, too_long = -1, 0
    for i in range(len(queues)):
        taker = queues[i]
        if taker.is_deleted or sizes[i] > taker.largest_value:
            refusing, too_long = i, sizes[i]
            break
    return rows, lane_counts, first_lanes, refusing, too_long


def _scattered(fed: array[int], lanes: array[int], counts: array[int]) -> array[int]:
    """In the order of their lanes, those of a lane in their own."""
    made, begins = _ZERO * len(fed), _ZERO * len(counts)
    out, at = made, begins
    place = 0
    for i in range(len(counts)):
        at[i] = place
        place += counts[i]
    for i in range(len(lanes)):
        out[at[lanes[i]]] = fed[i]
        at[lanes[i]] += 1
    return made
