"""Rows of many topics, from any number of publishers, to the logs of all queues that they feed: one pass over the rows,
however many queues there are."""

from __future__ import annotations

import asyncio
from array import array
from functools import partial

from penstock.broker.publish.admission import Obstacle, Planned, Reservation
from penstock.broker.publish.placement import Steps, step_of
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import RoutedFields
from penstock.broker.queues.queue import Queue, check_largest
from penstock.core.errors import NoSuchQueue
from penstock.kernels import routing, takers
from penstock.log.journal.spread import Spread
from penstock.log.partition import Log

_ZERO = array("i", [0])


def lay_out(
    routed: RoutedFields, reservation: Reservation, steps: Steps, max_frame_bytes: int, planned: Planned, now: int
) -> Spread | Obstacle:
    """Every row let in by its queues, and placed. Raises what one of them refuses."""
    columns, (queues, begins, numbers, _), publisher, places = routed
    index, value, key = columns.topic_index, columns.value, columns.key
    assert index is not None
    if places is None:
        places = array("q", [publisher.place]) * columns.count
    if key is not None:
        routing.place_by_key(columns.source, key.starts, key.ends, places)
    forward = _steps(queues, spreading, publisher, steps) if (spreading := takers.spreading(queues)) else None
    counts = _ZERO * len(queues)
    order, lanes, first_lanes, refusing, too_long = routing.lay_out(
        queues, index, begins, numbers, places, forward, value.starts, value.ends, counts
    )
    check_largest(columns, max_frame_bytes)
    if refusing >= 0:
        if queues[refusing].is_deleted:
            raise NoSuchQueue(queues[refusing].name)
        queues[refusing].check_longest(too_long)
    if (obstacle := reservation.take_all(queues, counts, planned, now)) is not None:
        return obstacle
    logs: list[Log] = []
    if (first := takers.data_logs(queues, first_lanes, lanes, logs)) >= 0:
        return Obstacle(partial(_make, _lacking(queues, first, lanes, first_lanes)))
    if len(lanes) > len(logs):
        lanes = array("i", filter(None, lanes))
    if len(logs) == 1 and len(order) == columns.count:
        return Spread(columns, lanes, logs)  # all of them, as they stand
    return Spread(columns.gather(order), lanes, logs)


def _steps(queues: list[Queue], spreading: list[int], publisher: Publisher, steps: Steps) -> array[int]:
    forward = _ZERO * len(queues)
    for place in spreading:
        forward[place] = step_of(queues[place], publisher, steps)
    return forward


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
