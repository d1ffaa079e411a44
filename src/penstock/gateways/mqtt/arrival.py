"""PUBLISH packets of one receive as columns: topics numbered, aliases resolved, what is between client and server only
taken out."""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.broker.publish.publisher import Publisher
from penstock.broker.sessions.targets import RETAIN
from penstock.broker.topics.publication import Publication
from penstock.broker.topics.subscriptions import Subscriber
from penstock.codecs.mqtt.errors import ProtocolError
from penstock.core.ports import Buffer
from penstock.gateways.mqtt.topic_aliases import HeardAliases
from penstock.kernels import mqtt_columns as names
from penstock.kernels import mqtt_rows, rows
from penstock.log.columns import Columns, Spans

_KEY = b"partition-key"
_ANY = 0xFFFF
_ALWAYS = (
    names.HEAD,
    names.PRESENT,
    names.PACKET_ID,
    names.TOPIC_START,
    names.TOPIC_END,
    names.PAYLOAD_START,
    names.PAYLOAD_END,
)
_OF_PROPERTIES = (names.PROPERTIES_START, names.PROPERTIES_END, names.EXPIRY_AT, names.ALIAS_AT)


# Of the first byte of a packet: QoS and RETAIN, as the broker has them.
FLAGS = bytes([head >> 1 & 3 | (RETAIN if head & 1 else 0) for head in range(256)])


class Scanned(Protocol):
    """What a scan found: a Scanner, or a part of it."""

    @property
    def rows(self) -> int: ...

    def column(self, number: int) -> array[int]: ...

    def pick(self, numbers: Sequence[int]) -> list[array[int]]: ...


class Verbatim(NamedTuple):
    """Packets that say nothing that is between a client and its server only, one behind the other from the beginning
    of the receive buffer."""

    version: int
    ends: array[int]
    heads: bytes
    id_positions: array[int]
    """of all of them; says nothing without QoS"""


@dataclass(slots=True)
class Arrived:
    """`columns` refer to the receive buffer: until the next receive. `topics` are those of their topic_index."""

    columns: Columns
    topics: list[bytes]
    heads: bytes
    """the first byte of each packet"""
    packet_ids: array[int]
    """0 where there is none"""
    has_user_properties: bool
    verbatim: Verbatim | None = None
    """the packets as they came, if they can go out like that"""

    def publication(self, publisher: Publisher, namespace: str, source: Subscriber | None) -> Publication:
        flags = self.heads.translate(FLAGS)
        return Publication(self.columns, self.topics, flags, publisher, namespace, source, as_it_came=self.verbatim)

    def narrowed(self, wanted: array[int]) -> Arrived:
        """Some of the rows, over the same buffer, with no topic that none of them has."""
        ids = array("i", bytes(4 * len(wanted)))
        rows.take_int32(self.packet_ids, wanted, ids)
        columns = self.columns.select(wanted)
        spans, source = columns.topics, columns.source
        assert spans is not None
        topics = [bytes(source[start:end]) for start, end in zip(spans.starts, spans.ends, strict=True)]
        return Arrived(columns, topics, bytes([self.heads[row] for row in wanted]), ids, self.has_user_properties)

    def keep(self) -> None:
        """Over a copy of the buffer, so that it outlives the receive."""
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
        data: bytearray | memoryview,
        scanner: Scanned,
        wanted: array[int] | None,
        aliases: HeardAliases,
        alias_maximum: int,
        now_ms: int,
        version: int,
        is_first: bool = True,
    ) -> Arrived:
        """The PUBLISH rows of the last scan: all, or those with the `wanted` numbers. `aliases` are the connection's,
        and are brought up to date. ProtocolError for one that was never told. `is_first`: the rows begin where the data
        does."""
        heads, present, packet_ids, starts, ends, value_starts, value_ends = _columns(scanner, wanted, _ALWAYS)
        count = len(heads)
        index = array("i", bytes(4 * count))
        source: Buffer = data
        is_aliased = alias_maximum > 0 and self._any(present, names.HAS_ALIAS)
        if is_aliased:
            (row_aliases,) = _columns(scanner, wanted, (names.ALIAS,))
            source, topics, spans = self._aliased(data, starts, ends, row_aliases, aliases, alias_maximum, index)
        else:
            spans = Spans(starts, ends)
            if count > 1:
                distinct = mqtt_rows.group_topics(
                    data, starts, ends, None, None, self._seed, self._table, index, self._firsts
                )
                spans = spans.take(self._firsts[:distinct])
            topics = [bytes(data[start:end]) for start, end in zip(spans.starts, spans.ends, strict=True)]
        columns = Columns(count, source, Spans(value_starts, value_ends), topic_index=index, topics=spans)
        has_user_properties = is_changed = False
        if self._any(present, _ANY):
            first, last, expiry_at, alias_at = _columns(scanner, wanted, _OF_PROPERTIES)
            properties = Spans(first, last)
            is_changed = self._take_properties(columns, properties, present, expiry_at, alias_at, now_ms)
            has_user_properties = self._any(present, names.HAS_USER_PROPERTIES)
            if has_user_properties:
                self._take_key(columns, properties)
        first_bytes = heads.tobytes()[::4]
        is_whole = wanted is None and is_first and not is_changed
        verbatim = Verbatim(version, value_ends, first_bytes, ends) if is_whole else None
        return Arrived(columns, topics, first_bytes, packet_ids, has_user_properties, verbatim)

    def _any(self, present: array[int], bits: int) -> bool:
        if len(present) == 1:
            return present[0] & bits != 0
        return mqtt_rows.pick_rows(present, bits, 0, self._found) < len(present)

    def _aliased(
        self,
        data: bytearray | memoryview,
        starts: array[int],
        ends: array[int],
        row_aliases: array[int],
        aliases: HeardAliases,
        alias_maximum: int,
        index: array[int],
    ) -> tuple[Buffer, list[bytes], Spans]:
        """Topics that are known from before are put behind a copy of the buffer."""
        numbers = array("i", [-1]) * (alias_maximum + 1)
        distinct = mqtt_rows.group_topics(
            data, starts, ends, row_aliases, numbers, self._seed, self._table, index, self._firsts
        )
        topics: list[bytes] = []
        for row in self._firsts[:distinct]:
            topic = bytes(data[starts[row] : ends[row]]) or aliases.topic(row_aliases[row])
            if topic is None:
                raise ProtocolError(f"topic alias {row_aliases[row]} was never told")
            topics.append(topic)
        for alias, number in enumerate(numbers):
            if number >= 0:
                aliases.hear(alias, topics[number])
        source, places, at = b"".join([data, *topics]), array("i"), len(data)
        for topic in topics:
            places.append(at)
            at += len(topic)
        return source, topics, Spans(places, array("i", [*places[1:], at]))

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


def _columns(scanner: Scanned, wanted: array[int] | None, numbers: Sequence[int]) -> list[array[int]]:
    whole = scanner.pick(numbers)
    if wanted is None:
        return whole
    picked = [array("i", bytes(4 * len(wanted))) for _ in whole]
    for column, some in zip(whole, picked, strict=True):
        rows.take_int32(column, wanted, some)
    return picked
