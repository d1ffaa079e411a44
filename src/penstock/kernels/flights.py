"""Messages on their way to one peer, by the identifiers that its answers name.

Identifiers are int32, numbers of flights below 2**38, places below 2**24."""

from __future__ import annotations

from array import array
from typing import Any

from penstock.core.errors import InvalidArgument

PLACE_BITS = 24
_BITS = PLACE_BITS
_PLACE = (1 << PLACE_BITS) - 1


class Flight:
    """What was sent together, one delivery behind the other: those of delivery i end before place stops[i]."""

    def __init__(self, owners: list[Any], deliveries: list[Any], stops: array[int], packet_ids: list[int]) -> None:
        self.owners, self.deliveries, self.packet_ids = owners, deliveries, packet_ids
        self.stops = stops
        self.lefts = array("i", stops)
        self.left = len(packet_ids)
        for i in range(len(deliveries) - 1, 0, -1):
            self.lefts[i] -= self.stops[i - 1]
        if len(stops) != len(deliveries) or (len(deliveries) and stops[len(deliveries) - 1] != self.left):
            raise InvalidArgument("a flight has an identifier for each message")

    def start(self, part: int) -> int:
        """The place of a delivery's first message."""
        return self.stops[part - 1] if part else 0

    def stop(self, part: int) -> int:
        return self.stops[part]

    def part_of(self, place: int, hint: int) -> int:
        """The delivery that a place is in; quick when that is the hint or the next one."""
        low, high = 0, len(self.stops) - 1
        if hint >= 0 and hint <= high and place >= self.start(hint):
            if place < self.stops[hint]:
                return hint
            if hint < high and place < self.stops[hint + 1]:
                return hint + 1
        while low < high:
            middle = (low + high) >> 1
            if self.stops[middle] <= place:
                low = middle + 1
            else:
                high = middle
        return low

    def answered(self, part: int, count: int) -> int:
        """So many messages of a delivery are; what is done with is let go of. How many of the flight are left."""
        self.lefts[part] -= count
        self.left -= count
        if self.lefts[part] == 0:
            self.deliveries[part] = self.owners[part] = None
        return self.left


def add(words: dict[int, int], flights: dict[int, Flight], number: int, flight: Flight) -> int:
    """The peer will answer with the identifiers of this flight."""
    word = number << _BITS
    for packet_id in flight.packet_ids:
        words[packet_id] = word
        word += 1
    flights[number] = flight
    return 0


def take(
    words: dict[int, int],
    flights: dict[int, Flight],
    packet_ids: list[int],
    deliveries: list[Any],
    firsts: array[int],
    stops: array[int],
) -> int:
    """What was sent with these identifiers, and is under way no more; others are passed over. To `deliveries` and the
    two columns, as long as there are identifiers, in runs: places firsts[i]..stops[i] - 1 of delivery i, in the order
    of the answers. How many runs."""
    runs, i, count = 0, 0, len(packet_ids)
    part = -1
    number = -1
    flight: Flight | None = None
    while i < count:
        word = words.pop(packet_ids[i], -1)
        i += 1
        if word < 0:
            continue
        if flight is None or word >> _BITS != number:
            number, part = word >> _BITS, -1
            flight = flights[number]
        place = word & _PLACE
        part = flight.part_of(place, part)
        first, following, end = place, place + 1, flight.stop(part)
        while i < count and following < end and words.get(packet_ids[i], -1) == word + following - first:
            del words[packet_ids[i]]
            following += 1
            i += 1
        deliveries.append(flight.deliveries[part])
        firsts[runs], stops[runs] = first - flight.start(part), following - flight.start(part)
        runs += 1
        if flight.answered(part, following - first) == 0:
            del flights[number]
            flight = None
    return runs
