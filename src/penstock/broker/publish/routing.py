"""Rows of many topics, from any number of publishers, to the logs of all queues that they feed: one pass over the rows,
however many queues there are."""

from __future__ import annotations

import asyncio
from array import array
from functools import partial
from itertools import accumulate

from penstock.broker.publish.admission import Obstacle, Planned, Reservation
from penstock.broker.publish.placement import Steps, step_of
from penstock.broker.publish.request import Routed
from penstock.broker.queues.queue import Queue, check_largest
from penstock.core.errors import NoSuchQueue
from penstock.kernels import hashing, routing, rows, takers
from penstock.log.columns import Columns
from penstock.log.journal.spread import Spread
from penstock.log.partition import Log

_ZERO = array("i", [0])


def lay_out(
    routed: Routed, reservation: Reservation, steps: Steps, max_frame_bytes: int, planned: Planned, now: int
) -> Spread | Obstacle:
    """Every row let in by its queues, and placed. Raises what one of them refuses."""
    columns, (queues, begins, numbers), publisher, _ = routed
    index = columns.topic_index
    assert index is not None
    partitions, forward = _ZERO * len(queues), _ZERO * len(queues)
    for place in takers.shapes(queues, partitions):
        forward[place] = step_of(queues[place], publisher, steps)
    first_lanes = array("i", accumulate(partitions, initial=0))
    count = routing.count_targets(index, begins)
    fed, lanes = _ZERO * count, _ZERO * count
    counts, longest = _ZERO * len(queues), _ZERO * len(queues)
    of_queues, values = (first_lanes, partitions, forward), (columns.value.starts, columns.value.ends)
    routing.lay_out(index, begins, numbers, _places(routed), *of_queues, *values, fed, lanes, counts, longest)
    check_largest(columns, max_frame_bytes)
    if (refusing := takers.refusing(queues, longest)) >= 0:
        if queues[refusing].is_deleted:
            raise NoSuchQueue(queues[refusing].name)
        queues[refusing].check_longest(longest[refusing])
    if (obstacle := reservation.take_all(queues, counts, planned, now)) is not None:
        return obstacle
    return _spread(columns, queues, fed, lanes, first_lanes)


def _places(routed: Routed) -> array[int]:
    columns, places = routed.columns, routed.places
    if places is None:
        places = array("q", [routed.publisher.place]) * columns.count
    if columns.key is not None:
        routing.place_by_key(columns.source, columns.key.starts, columns.key.ends, places)
    return places


def _spread(
    columns: Columns, queues: list[Queue], fed: array[int], lanes: array[int], first_lanes: array[int]
) -> Spread | Obstacle:
    counts, order = _ZERO * first_lanes[-1], _ZERO * len(lanes)
    hashing.scatter(lanes, counts, order)
    logs: list[Log] = []
    if (first := takers.data_logs(queues, first_lanes, counts, logs)) >= 0:
        return Obstacle(partial(_make, _lacking(queues, first, counts, first_lanes)))
    if len(logs) == 1 and len(lanes) == columns.count:
        return Spread(columns, array("i", [columns.count]), logs)  # all of them, as they stand
    picked = order[:]
    rows.take_int32(fed, order, picked)
    return Spread(columns.gather(picked), array("i", [count for count in counts if count]), logs)


def _lacking(
    queues: list[Queue], first: int, counts: array[int], first_lanes: array[int]
) -> list[tuple[Queue, list[int]]]:
    """The partitions that rows go to and that are not there, of the queues from the first one on."""
    found: list[tuple[Queue, list[int]]] = []
    for number in range(first, len(queues)):
        mine, units = counts[first_lanes[number] : first_lanes[number + 1]], queues[number].units
        if wanted := [partition for partition, count in enumerate(mine) if count and partition not in units]:
            found.append((queues[number], wanted))
    return found


async def _make(wanted: list[tuple[Queue, list[int]]]) -> None:
    """All in one commit: one queue after the other would be a sync and a look at all rows for each of them."""
    made = await asyncio.gather(*[queue.make(partitions) for queue, partitions in wanted], return_exceptions=True)
    for outcome in made:
        if outcome is not None:
            raise outcome
