"""PUBLISH packets of a turn as columns: topics numbered, aliases resolved, what is between client and server only taken
out."""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from penstock.broker.sessions.targets import RETAIN
from penstock.codecs.mqtt.errors import PacketError, ProtocolError
from penstock.gateways.mqtt.inbound.scanned import Scanned
from penstock.gateways.mqtt.inbound.topic_aliases import HeardAliases
from penstock.kernels import cells, mqtt_rows, rows
from penstock.kernels import mqtt_columns as names
from penstock.kernels import turn as kernel
from penstock.log.columns import Columns, Spans

_KEY = b"partition-key"
_ZERO, _NO_PLACE = array("i", [0]), array("q", [0])
_ANY = 0xFFFF
_ALWAYS = (
    names.HEAD,
    names.PRESENT,
    names.PACKET_ID,
    names.TOPIC_START,
    names.TOPIC_END,
    names.PAYLOAD_START,
    names.PAYLOAD_END,
    names.REGION,
)
_OF_PROPERTIES = (names.PROPERTIES_START, names.PROPERTIES_END, names.EXPIRY_AT, names.ALIAS_AT)


# Of the first byte of a packet: QoS and RETAIN, as the broker has them.
FLAGS = bytes([head >> 1 & 3 | (RETAIN if head & 1 else 0) for head in range(256)])


class Verbatim(NamedTuple):
    """Packets of one client that say nothing that is between it and its server only, one behind the other."""

    version: int
    start: int
    """of the first, in the source of the columns"""
    ends: array[int]
    heads: bytes
    id_positions: array[int]
    """of all of them; says nothing without QoS"""

    def shifted(self, positions: array[int]) -> array[int]:
        """As they are behind the start."""
        if self.start:
            positions = positions[:]
            kernel.shift(positions, -self.start)
        return positions


CameFields: TypeAlias = "tuple[int, int, array[int], bytes, array[int]]"
"""a Verbatim as a plain tuple: most are never asked for"""


class Aliased(NamedTuple):
    """Rows first to stop - 1 are of a client that uses aliases."""

    first: int
    stop: int
    aliases: HeardAliases
    maximum: int


@dataclass(slots=True)
class Arrived:
    """`columns` refer to the arena: until the next turn, or keep(). `topics` are those of their topic_index."""

    columns: Columns
    topics: list[bytes]
    heads: bytes
    """the first byte of each packet"""
    packet_ids: array[int]
    """0 where there is none"""
    regions: array[int]
    """whose each row is: the number of its connection's region in the turn"""
    places: array[int]
    """where each row without a key goes, for who fills them in: see Publisher.place"""
    has_user_properties: bool
    as_it_came: CameFields | None = None
    """the packets as they came, if they can go out like that"""

    @property
    def count(self) -> int:
        return self.columns.count

    @property
    def flags(self) -> bytes:
        return self.heads.translate(FLAGS)

    def narrowed(self, wanted: array[int]) -> Arrived:
        """Some of the rows, over the same buffer, with no topic that none of them has."""
        if len(wanted) == self.columns.count:
            return self
        columns = self.columns.select(wanted)
        spans, source = columns.topics, columns.source
        assert spans is not None
        topics = cells.pieces(source, spans.starts, spans.ends)
        heads = bytes([self.heads[row] for row in wanted])
        ids, regions = _taken(self.packet_ids, wanted), _taken(self.regions, wanted)
        places = array("q", map(self.places.__getitem__, wanted))
        return Arrived(columns, topics, heads, ids, regions, places, self.has_user_properties)

    def of_regions(self, wanted: array[int]) -> Arrived:
        """Rows of the regions that are wanted."""
        found = _ZERO * self.columns.count
        return self.narrowed(found[: kernel.pick_regions(self.regions, wanted, found)])

    def keep(self) -> None:
        """Over a copy of the buffer, so that it outlives the turn."""
        if not isinstance(self.columns.source, bytes):
            self.columns.source = bytes(self.columns.source)


class Arrivals:
    """One for all connections of a loop: it has the scratch space."""

    def __init__(self, room: int) -> None:
        self._seed = secrets.randbits(64)
        self._table = array("i", bytes(4 * 6 * room))
        self._firsts = array("i", bytes(4 * room))
        self._found = array("i", bytes(4 * room))

    def take(
        self,
        data: memoryview,
        scanned: Scanned,
        aliased: Sequence[Aliased],
        now_ms: int,
        as_it_came: tuple[int, int] | None,
    ) -> tuple[Arrived, dict[int, PacketError]]:
        """PUBLISH rows of a scan. And what is wrong with those who used an alias, by region: one that was never told,
        or too many; what they sent has topics that say nothing. `as_it_came`: the rows are packets of one client that
        lie behind each other, their version and their start."""
        heads, present, packet_ids, starts, ends, value_starts, value_ends, regions = scanned.pick(_ALWAYS)
        count, wrong, source = len(heads), dict[int, PacketError](), data
        id_positions = ends
        if aliased:
            [row_aliases] = scanned.pick((names.ALIAS,))
            source, starts, ends = self._resolved(data, starts, ends, row_aliases, regions, aliased, wrong)
        index = _ZERO * count
        if count == 1:
            spans, topics = Spans(starts, ends), [bytes(source[starts[0] : ends[0]])]
        else:
            grouped = source, starts, ends, None, None, self._seed, self._table, index, self._firsts
            spans = Spans(starts, ends).take(self._firsts[: mqtt_rows.group_topics(*grouped)])
            topics = cells.pieces(source, spans.starts, spans.ends)
        columns = Columns(count, source, Spans(value_starts, value_ends), None, None, None, index, spans)
        has_user_properties = is_changed = False
        if self._any(present, _ANY):
            first, last, expiry_at, alias_at = scanned.pick(_OF_PROPERTIES)
            properties = Spans(first, last)
            is_changed = self._take_properties(columns, properties, present, expiry_at, alias_at, now_ms)
            has_user_properties = self._any(present, names.HAS_USER_PROPERTIES)
            if has_user_properties:
                self._take_key(columns, properties)
        first_bytes, came = heads.tobytes()[::4], None
        if as_it_came is not None and not is_changed:
            came = (*as_it_came, value_ends, first_bytes, id_positions)
        named, places = (packet_ids, regions), _NO_PLACE * count
        return Arrived(columns, topics, first_bytes, *named, places, has_user_properties, came), wrong

    def _any(self, present: array[int], bits: int) -> bool:
        if len(present) == 1:
            return present[0] & bits != 0
        return mqtt_rows.pick_rows(present, bits, 0, self._found) < len(present)

    def _resolved(
        self,
        data: memoryview,
        starts: array[int],
        ends: array[int],
        row_aliases: array[int],
        regions: array[int],
        aliased: Sequence[Aliased],
        wrong: dict[int, PacketError],
    ) -> tuple[memoryview, array[int], array[int]]:
        """Topics that are known from before are put behind a copy of the buffer."""
        starts, ends, behind = starts[:], ends[:], [bytes(data)]
        at = len(data)
        for each in aliased:
            mine = slice(each.first, each.stop)
            try:
                topics, index = self._topics(data, starts[mine], ends[mine], row_aliases[mine], each)
            except ProtocolError as error:
                wrong[regions[each.first]] = error
                continue
            places = array("i", [at])
            for topic in topics:
                at += len(topic)
                places.append(at)
            starts[mine], ends[mine] = _taken(places[:-1], index), _taken(places[1:], index)
            behind += topics
        return memoryview(bytearray().join(behind)), starts, ends

    def _topics(
        self, data: memoryview, starts: array[int], ends: array[int], row_aliases: array[int], client: Aliased
    ) -> tuple[list[bytes], array[int]]:
        """The topics of one client's rows, and the number of each row's. ProtocolError for an alias that was never
        told, or that there is no room for."""
        numbers, index = array("i", [-1]) * (client.maximum + 1), _ZERO * len(starts)
        distinct = mqtt_rows.group_topics(
            data, starts, ends, row_aliases, numbers, self._seed, self._table, index, self._firsts
        )
        topics: list[bytes] = []
        for row in self._firsts[:distinct]:
            topic = bytes(data[starts[row] : ends[row]]) or client.aliases.topic(row_aliases[row])
            if topic is None:
                raise ProtocolError(f"topic alias {row_aliases[row]} was not set before on this connection")
            topics.append(topic)
        for alias, number in enumerate(numbers):
            if number >= 0:
                client.aliases.hear(alias, topics[number])
        return topics, index

    def _take_properties(
        self,
        columns: Columns,
        properties: Spans,
        present: array[int],
        expiry_at: array[int],
        alias_at: array[int],
        now_ms: int,
    ) -> bool:
        """Whether the bytes of the packets were changed: what is between client and server only was taken out."""
        columns.properties = properties
        if self._any(present, names.HAS_EXPIRY):
            columns.expiry = array("q", bytes(8 * columns.count))
            mqtt_rows.expiry_times(columns.source, present, expiry_at, now_ms, columns.expiry)
        if not self._any(present, names.HOP_BY_HOP):
            return False
        source = columns.source
        if isinstance(source, bytes) or memoryview(source).readonly:
            source = columns.source = bytearray(source)
        mqtt_rows.drop_hop_by_hop(source, present, expiry_at, alias_at, properties.starts)
        return True

    def _take_key(self, columns: Columns, properties: Spans) -> None:
        keys = Spans(array("i", bytes(4 * columns.count)), array("i", bytes(4 * columns.count)))
        if mqtt_rows.find_user_property(
            columns.source, properties.starts, properties.ends, _KEY, keys.starts, keys.ends
        ):
            columns.key = keys


def _taken(values: array[int], wanted: array[int]) -> array[int]:
    out = wanted[:]
    rows.take_int32(values, wanted, out)
    return out
