"""Messages of queues on their way to one client, of all its subscriptions: what its answers settle."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held

_ROW_BITS = 24
_PLACE = (1 << _ROW_BITS) - 1


class _Flight(NamedTuple):
    owner: Hashable
    delivery: Delivery


class QueueFlights:
    """Of one connection: however many queues it consumes, an answer is looked up once."""

    __slots__ = ("_flights", "_left", "_next", "_words")

    def __init__(self) -> None:
        self._words: dict[int, int] = {}
        """of a packet identifier: number of the flight and place in its delivery"""
        self._flights: dict[int, _Flight] = {}
        self._left: dict[int, int] = {}
        """of a flight: how many were not answered yet"""
        self._next = 0

    def __bool__(self) -> bool:
        return bool(self._words)

    def sent(self, owner: Hashable, delivery: Delivery, packet_ids: Sequence[int], places: Sequence[int]) -> None:
        """The client will answer with these identifiers, each for the message at its place."""
        self._next += 1
        first = self._next << _ROW_BITS
        is_whole = len(packet_ids) == len(delivery)
        words = range(first, first + len(packet_ids)) if is_whole else [first + place for place in places]
        self._words.update(zip(packet_ids, words, strict=True))
        self._flights[self._next], self._left[self._next] = _Flight(owner, delivery), len(packet_ids)

    def take(self, packet_ids: Iterable[int]) -> list[Held]:
        """What was sent with these, and is under way no more; others are passed over."""
        take = self._words.pop
        found = [word for packet_id in packet_ids if (word := take(packet_id, -1)) >= 0]
        if found and (number := found[0] >> _ROW_BITS) == max(found) >> _ROW_BITS == min(found) >> _ROW_BITS:
            # What is nearly always so.
            return [self._taken(number, [word & _PLACE for word in found])]
        runs = groupby(found, lambda word: word >> _ROW_BITS)
        return [self._taken(number, [word & _PLACE for word in some]) for number, some in runs]

    def _taken(self, number: int, places: list[int]) -> Held:
        delivery = self._flights[number].delivery
        self._left[number] -= len(places)
        if not self._left[number]:
            del self._left[number], self._flights[number]
        return Held(delivery, None if len(places) == len(delivery) else places)

    def give_up(self, owner: Hashable) -> list[int]:
        """The identifiers of what is under way of one owner, which nobody waits for any more."""
        gone = {number for number, flight in self._flights.items() if flight.owner is owner}
        found = [packet_id for packet_id, word in self._words.items() if word >> _ROW_BITS in gone] if gone else []
        for packet_id in found:
            del self._words[packet_id]
        for number in gone:
            del self._flights[number], self._left[number]
        return found
