"""Encoded PUBLISH packets, to be sent to any number of receivers."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import itemgetter

from penstock.broker.topics.subscriptions import Share
from penstock.core.ports import Buffer
from penstock.kernels.mqtt_encode import patch_packet_ids

_QOS_SHIFT, _QOS_MASK, _QOS_BITS = 1, 3, 6


@dataclass(slots=True)
class Packets:
    """`data` is shared and never changed. `ends` says where each packet ends; of those with QoS, `id_positions` where
    their identifier goes."""

    data: Buffer
    ends: array[int]
    heads: bytes
    id_positions: array[int] = field(default_factory=lambda: array("i"))
    expires: array[int] | None = None
    """of each packet in ms of running time, 0 for never; None if none does"""
    share: Share | None = None
    """the shared subscription that they are for"""

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def with_id(self) -> int:
        return len(self.id_positions)

    @property
    def qos(self) -> int | None:
        """Of all of them; None if they differ."""
        first = self.heads[0]
        is_same = self.heads.count(first) == len(self.heads)
        return first >> _QOS_SHIFT & _QOS_MASK if is_same else None

    def qos_of(self, place: int) -> int:
        return self.heads[place] >> _QOS_SHIFT & _QOS_MASK

    def with_ids(self, packet_ids: list[int]) -> bytearray:
        """A copy with these identifiers, one for each packet with QoS."""
        data = bytearray(self.data)
        patch_packet_ids(data, self.id_positions, array("i", packet_ids))
        return data

    def part(self, start: int, stop: int) -> Packets:
        """Packets start to stop - 1, on their own. All of them have QoS, or none of those before them."""
        base = self.ends[start - 1] if start else 0
        end = self.ends[stop - 1]
        before = sum([1 for head in self.heads[:start] if head & 6])
        inside = sum([1 for head in self.heads[start:stop] if head & 6])
        return Packets(
            memoryview(self.data)[base:end],
            array("i", [place - base for place in self.ends[start:stop]]),
            self.heads[start:stop],
            array("i", [place - base if place else 0 for place in self.id_positions[before : before + inside]]),
            None if self.expires is None else self.expires[start:stop],
            self.share,
        )


def oversized_places(ends: array[int]) -> list[int]:
    """Packets that the encoder left out, because the receiver does not take any that large [MQTT-3.1.2-25]."""
    if not ends or (ends[0] and len(set(ends)) == len(ends)):
        return []
    return [place for place in range(len(ends)) if ends[place] == (ends[place - 1] if place else 0)]


def without(packets: Packets, places: list[int]) -> Packets:
    """Packets that were left out get no identifier either."""
    gone = set(places)
    there = [place for place in range(len(packets)) if place not in gone]
    return Packets(
        packets.data,
        array("i", [packets.ends[place] for place in there]),
        bytes([packets.heads[place] for place in there]),
        array("i", [position for position in packets.id_positions if position]),
        None if packets.expires is None else array("q", [packets.expires[place] for place in there]),
        packets.share,
    )


def in_order(encoded: Sequence[tuple[Packets, array[int]]]) -> Iterator[Packets]:
    """Packets of several encodings by the numbers that theirs have, each of which rises; those that follow each other
    in one encoding stay together."""
    numbered = [[(number, which) for number in numbers] for which, (_, numbers) in enumerate(encoded)]
    taken = [_Cut(packets) for packets, _ in encoded]
    for which, some in groupby(merge(*numbered), key=itemgetter(1)):
        yield taken[which].next(len(list(some)))


class _Cut:
    """Packets in parts, one behind the other."""

    def __init__(self, packets: Packets) -> None:
        self._packets, self._data = packets, memoryview(packets.data)
        self._place = self._with_id = self._base = 0

    def next(self, count: int) -> Packets:
        packets, start, stop = self._packets, self._place, self._place + count
        heads, base = packets.heads[start:stop], self._base
        with_id = self._with_id + sum([1 for head in heads if head & _QOS_BITS])
        ends, positions = packets.ends[start:stop], packets.id_positions[self._with_id : with_id]
        self._place, self._with_id, self._base = stop, with_id, ends[-1]
        return Packets(
            self._data[base : ends[-1]],
            array("i", [end - base for end in ends]),
            heads,
            array("i", [position - base for position in positions]),
            None if packets.expires is None else packets.expires[start:stop],
            packets.share,
        )
