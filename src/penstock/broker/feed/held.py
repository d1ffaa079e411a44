"""How a settlement names messages that somebody was handed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import msgspec

from penstock.broker.feed.delivery import Delivery
from penstock.broker.queues.group import Group
from penstock.broker.queues.unit import Unit


class Named(msgspec.Struct, frozen=True, eq=False):
    """Messages of a partition by their offsets, as a receipt or an id names them: the batch is not at hand."""

    group: Group
    unit: Unit
    offsets: array[int]
    counts: array[int] | None
    """how often each had been handed out then; None: the latest that the consumer got"""
    consumer: int
    """-1 stands for whoever holds them"""

    def __len__(self) -> int:
        return len(self.offsets)


class Held(msgspec.Struct, frozen=True, eq=False):
    """Messages of a delivery: the only argument of a settlement. Those that were handed out anew since are stale."""

    delivery: Delivery | Named
    rows: Sequence[int] | None = None
    """places in the delivery; None for all"""

    @classmethod
    def named(cls, group: Group, unit: Unit, offsets: array[int], counts: array[int] | None, consumer: int) -> Held:
        return cls(Named(group, unit, offsets, counts, consumer))

    def __len__(self) -> int:
        return len(self.delivery) if self.rows is None else len(self.rows)

    @property
    def offsets(self) -> array[int]:
        delivery, places = self.delivery, self.rows
        if places is None:
            return delivery.offsets
        if isinstance(delivery, Named):
            return array("q", [delivery.offsets[place] for place in places])
        # Not those of the whole delivery: mostly it is one of hundreds.
        offset_of, rows = delivery.stored.offset_of, delivery.rows
        return array("q", [offset_of(rows[place]) for place in places])

    @property
    def counts(self) -> array[int] | None:
        """How often each was handed out then, as Named.counts."""
        places = self.rows
        if places is None:
            return self.delivery.counts
        if isinstance(self.delivery, Named):
            counts = self.delivery.counts
        elif (counts := self.delivery.deliveries) is None:
            return array("i", [1]) * len(places)
        return None if counts is None else array("i", [counts[place] for place in places])

    def current(self) -> list[int]:
        """Places of those that are still held as they were handed out, named by a delivery or by counts."""
        delivery, places = self.delivery, range(len(self.delivery)) if self.rows is None else self.rows
        cursor, counts = delivery.group.cursor(delivery.unit), self.counts
        assert counts is not None
        named = zip(places, self.offsets, counts, strict=True)
        return [place for place, offset, count in named if cursor.is_current(offset, count, delivery.consumer)]


def together(places: Iterable[tuple[Delivery, int]]) -> list[Held]:
    """Messages by their deliveries and places in them: those of one delivery are one."""
    found: dict[int, tuple[Delivery, list[int]]] = {}
    for delivery, place in places:
        found.setdefault(id(delivery), (delivery, []))[1].append(place)
    return [Held(delivery, _rising(chosen, len(delivery))) for delivery, chosen in found.values()]


def _rising(places: list[int], count: int) -> list[int] | None:
    """None for all of them, each once."""
    places = sorted(places)
    return None if places == list(range(count)) else places
