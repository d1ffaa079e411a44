"""Messages of shared subscriptions on their way to one member: if it goes without having them, another gets them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.broker.topics.subscriptions import Share
from penstock.codecs.mqtt.decode import decode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Publish
from penstock.gateways.mqtt.outbound.packets import Packets

_PLACE_BITS = 24


class Unfinished(NamedTuple):
    share: Share
    packet: Publish


class SharedFlights:
    """Of one connection. Only what has QoS is remembered."""

    __slots__ = ("_left", "_next", "_sent", "_words")

    def __init__(self) -> None:
        self._words: dict[int, int] = {}
        """of a packet identifier: the number of what was sent together, and the place in it"""
        self._sent: dict[int, Packets] = {}
        self._left: dict[int, int] = {}
        self._next = 0

    def __bool__(self) -> bool:
        return bool(self._words)

    def sent(self, packets: Packets, packet_ids: list[int]) -> None:
        self._next += 1
        first = self._next << _PLACE_BITS
        places = [place for place, head in enumerate(packets.heads) if head & 6]
        self._words.update(zip(packet_ids, [first + place for place in places], strict=True))
        self._sent[self._next], self._left[self._next] = packets, len(places)

    def settled(self, packet_ids: Iterable[int]) -> None:
        for packet_id in packet_ids:
            word = self._words.pop(packet_id, None)
            if word is not None:
                number = word >> _PLACE_BITS
                self._left[number] -= 1
                if not self._left[number]:
                    del self._left[number], self._sent[number]

    def unfinished(self, version: Version) -> list[Unfinished]:
        """In the order in which they were sent. Those of QoS 2 are nobody else's [MQTT-4.8.2-5]."""
        found = []
        for word in self._words.values():
            packets, place = self._sent[word >> _PLACE_BITS], word & (1 << _PLACE_BITS) - 1
            if packets.qos_of(place) == 1:
                found += _packets(packets, [place], version)
        return found


def waiting(chunks: Iterable[Packets], version: Version) -> list[Unfinished]:
    """Of what was not sent yet, the messages of shared subscriptions."""
    found = []
    for packets in chunks:
        if packets.share is not None:
            found += _packets(packets, [place for place in range(len(packets)) if packets.heads[place] & 6], version)
    return found


def _packets(packets: Packets, places: Iterable[int], version: Version) -> list[Unfinished]:
    assert packets.share is not None
    found = []
    for place in places:
        start = packets.ends[place - 1] if place else 0
        data = bytearray(memoryview(packets.data)[start : packets.ends[place]])
        # Identifiers are put into copies; here they are 0, which no packet may have.
        at = packets.id_positions[sum([1 for head in packets.heads[:place] if head & 6])] - start
        data[at + 1] = 1
        packet = decode(data, version)
        assert isinstance(packet, Publish)
        found.append(Unfinished(packets.share, packet))
    return found
