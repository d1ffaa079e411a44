"""Rows on their way to logs: what a topic feeds is a table, and each row goes to one lane of every queue that it feeds.

A lane is a partition of a queue; those of a queue have numbers one behind the other. Columns are int32, places int64:
of a row with a key its hash, of one without a key -1 less the number of its sender."""

from __future__ import annotations

from array import array

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import hashing


def place_by_key(source: Buffer, starts: array[int], ends: array[int], places: array[int]) -> int:
    """places[i] ('q') becomes the hash of key source[starts[i]:ends[i]], unless that is empty."""
    for i in range(len(places)):
        if starts[i] != ends[i]:
            places[i] = hashing.murmur3(source, starts[i], ends[i])
    return 0


def count_targets(index: array[int], begins: array[int]) -> int:
    """How many rows there are when each stands once for every queue that its topic feeds: see lay_out()."""
    total = 0
    for i in range(len(index)):
        total += begins[index[i] + 1] - begins[index[i]]
    return total


def lay_out(
    index: array[int],
    begins: array[int],
    queues: array[int],
    places: array[int],
    first_lanes: array[int],
    partitions: array[int],
    steps: array[int],
    starts: array[int],
    ends: array[int],
    rows: array[int],
    lanes: array[int],
    counts: array[int],
    longest: array[int],
) -> int:
    """Row i, of topic index[i], goes to the queues queues[begins[index[i]]:begins[index[i] + 1]], in each to the
    partition of its place; where that is a sender's, so many `steps` of the queue further on. rows[n] and lanes[n] are
    those of the n-th, row by row, and have room for count_targets(). How many there are. `counts` and `longest`, zeros
    on entry, get the rows of each queue, and the longest of their values, which go from starts[i] to ends[i]."""
    count = 0
    for i in range(len(index)):
        place, size = places[i], ends[i] - starts[i]
        for target in range(begins[index[i]], begins[index[i] + 1]):
            queue = queues[target]
            if partitions[queue] < 1 or steps[queue] < 0:
                raise InvalidArgument("a queue has at least one partition, and steps lead forward")
            at = place if place >= 0 else -1 - place + steps[queue]
            rows[count] = i
            lanes[count] = first_lanes[queue] + at % partitions[queue]
            count += 1
            counts[queue] += 1
            if size > longest[queue]:
                longest[queue] = size
    return count
