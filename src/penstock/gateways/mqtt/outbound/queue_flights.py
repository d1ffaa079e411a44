"""Messages of queues on their way to one client, of all its subscriptions: what its answers settle."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from penstock.broker.feed.delivery import Delivery
from penstock.kernels import flights as kernel
from penstock.kernels.flights import Flight


class Answered(NamedTuple):
    """Places firsts[i]..stops[i] - 1 of delivery i."""

    deliveries: list[Delivery]
    firsts: array[int]
    stops: array[int]


class QueueFlights:
    """Of one connection: however many queues it consumes, an answer is looked up once."""

    __slots__ = ("_flights", "_next", "_words")

    def __init__(self) -> None:
        self._words: dict[int, int] = {}
        """of a packet identifier: number of the flight and place in it"""
        self._flights: dict[int, Flight] = {}
        self._next = 0

    def __bool__(self) -> bool:
        return bool(self._words)

    def sent(
        self, owners: Sequence[Hashable], deliveries: list[Delivery], stops: array[int], packet_ids: list[int]
    ) -> None:
        """The client will answer with these identifiers: those of delivery i, whose owner is owners[i], end before
        place stops[i]."""
        self._next += 1
        kernel.add(self._words, self._flights, self._next, Flight(list(owners), deliveries, stops, packet_ids))

    def take(self, packet_ids: list[int]) -> Answered:
        """What was sent with these, and is under way no more; others are passed over."""
        found: list[Delivery] = []
        firsts, stops = array("i", bytes(4 * len(packet_ids))), array("i", bytes(4 * len(packet_ids)))
        count = kernel.take(self._words, self._flights, packet_ids, found, firsts, stops)
        return Answered(found, firsts[:count], stops[:count])

    def give_up(self, owner: Hashable) -> list[int]:
        """The identifiers of what is under way of one owner, which nobody waits for any more."""
        found = []
        for number, flight in list(self._flights.items()):
            for part, other in enumerate(flight.owners):
                if other is owner:
                    places = range(flight.start(part), flight.stop(part))
                    mine = [flight.packet_ids[at] for at in places if self._is_under_way(number, flight, at)]
                    found += mine
                    if not flight.answered(part, len(mine)):
                        del self._flights[number]
        for packet_id in found:
            del self._words[packet_id]
        return found

    def _is_under_way(self, number: int, flight: Flight, place: int) -> bool:
        return self._words.get(flight.packet_ids[place], -1) == number << kernel.PLACE_BITS | place
