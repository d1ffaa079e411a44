"""Messages to those who are connected: encoded once for all who get the same bytes."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from penstock.codecs.mqtt.packets import Publish
from penstock.core.ports import Buffer
from penstock.gateways.mqtt.arrival import Arrived
from penstock.gateways.mqtt.options import SharedStrategy
from penstock.gateways.mqtt.packed import packed
from penstock.gateways.mqtt.packets import Packets, oversized_places, without
from penstock.gateways.mqtt.router import Manner, Route, receiver_of
from penstock.gateways.mqtt.session import Session
from penstock.gateways.mqtt.shared import Share
from penstock.gateways.mqtt.storing import Stored, store
from penstock.kernels import rows as kernel
from penstock.kernels.mqtt_encode import SPAN_WORDS, column_spans, mark_aliases
from penstock.kernels.mqtt_publish import PublishEncoder
from penstock.log.columns import Columns

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection

_MAX_ENCODERS = 256
_PUBLISH = 0x30


def _head_table(qos: int, keeps_retain: bool) -> bytes:
    """What the first byte of a packet becomes on its way to a receiver."""
    return bytes([_PUBLISH | min(head >> 1 & 3, qos) << 1 | (head & 1 if keeps_retain else 0) for head in range(256)])


_HEADS = {(qos, keeps): _head_table(qos, keeps) for qos in range(3) for keeps in (False, True)}

Sent: TypeAlias = "tuple[Manner, array[int], Sequence[Session]]"


@dataclass(slots=True)
class Plan:
    """Who gets which rows: `live` at once, `stored` after they are committed for the session."""

    live: list[Sent]
    shared: list[tuple[Share, Manner, array[int], Session]] = field(default_factory=list)
    """one member of each share, who is connected"""
    stored: list[Stored] = field(default_factory=list)
    """more than one only where a session gets a message more than once"""


class FanOut:
    def __init__(self, strategy: SharedStrategy, now_ms: Callable[[], int]) -> None:
        self._strategy, self._now_ms = strategy, now_ms
        self._encoders: dict[tuple[int, int], PublishEncoder] = {}

    def plan(self, arrived: Arrived, routes: Sequence[Route], publisher: Session | None) -> Plan:
        if len(routes) == 1:
            plan = Plan(_single(routes[0], arrived.columns.count, publisher))
        else:
            plan = Plan(_several(arrived.columns, routes, publisher))
        for number, route in enumerate(routes):
            if route.shares or route.stored:
                rows = rows_of_topics(arrived.columns, [number])
                for receiver in route.stored:
                    if not (receiver.no_local and receiver.session is publisher):
                        store(arrived.heads, receiver, rows, plan.stored)
                for share in route.shares:
                    self.plan_share(arrived, share, rows, plan)
        return plan

    def plan_share(self, arrived: Arrived, share: Share, rows: Sequence[int], plan: Plan) -> None:
        for member, mine in share.deal(self._strategy, arrived.columns, rows):
            receiver = receiver_of(member.session, [member])
            if member.session.is_stored:
                store(arrived.heads, receiver, mine, plan.stored)
            if member.session.connection is not None:
                plan.shared.append((share, receiver.manner(), mine, member.session))

    def push(self, arrived: Arrived, plan: Plan) -> None:
        """To all who are connected. Sessions that messages are stored for get only those without QoS from here."""
        for manner, rows, sessions in plan.live:
            packets: Packets | None = None
            for session in sessions:
                if session.is_stored and manner.qos:
                    self._push_unstored(arrived, manner, rows, session)
                    continue
                connection = session.connection
                if connection is None or self._push_aliased(arrived, manner, rows, connection):
                    continue
                if packets is None:
                    packets = self.encode(arrived, manner, rows)
                session.push(packets)

        for share, manner, rows, session in plan.shared:
            if session.is_stored and manner.qos:
                self._push_unstored(arrived, manner, rows, session)
            else:
                packets = self.encode(arrived, manner, rows)
                packets.share = share
                session.push(packets)

    def _push_unstored(self, arrived: Arrived, manner: Manner, rows: array[int], session: Session) -> None:
        unstored = array("i", [row for row in rows if not arrived.heads[row] & 6])
        if unstored:
            session.push(self.encode(arrived, manner, unstored))

    def _push_aliased(self, arrived: Arrived, manner: Manner, rows: array[int], connection: Connection) -> bool:
        """With topic aliases, if the client takes any and all of it can go out now."""
        aliases, index = connection.topic_aliases, arrived.columns.topic_index
        if aliases is None or index is None or connection.sender.room < len(rows):
            return False
        numbers = aliases.of(arrived.topics)
        marks = array("i", bytes(4 * len(rows)))
        mark_aliases(index, rows, numbers, marks)
        packets = self.encode(arrived, manner, rows, marks)
        if len(packets) < len(rows):
            return False
        connection.sender.send_now(packets)
        aliases.told(arrived.topics, numbers)
        return True

    def encode(self, arrived: Arrived, manner: Manner, rows: array[int], aliases: array[int] | None = None) -> Packets:
        if aliases is None and len(rows) == len(arrived.heads) and (same := _verbatim(arrived, manner)) is not None:
            return same
        spans = spans_of(arrived.columns, rows)
        heads = arrived.heads if len(rows) == len(arrived.heads) else bytes([arrived.heads[row] for row in rows])
        return self.encode_spans(arrived.columns.source, spans, heads, manner, aliases)

    def encode_spans(
        self, source: Buffer, spans: array[int], heads: bytes, manner: Manner, aliases: array[int] | None = None
    ) -> Packets:
        """`heads` as they came; what the manner makes of them goes out."""
        heads = heads.translate(_HEADS[manner.qos, manner.retain_as_published])
        encoder = self._encoder(manner)
        data = encoder.encode(source, spans, heads, self._now_ms(), aliases=aliases, prefixes=manner.identifiers)
        packets = Packets(data, encoder.ends(), heads, encoder.id_positions(), _expiries(spans))
        oversized = oversized_places(packets.ends)
        return without(packets, oversized) if oversized else packets

    def encode_stored(
        self, source: Buffer, spans: array[int], heads: bytes, manner: Manner, identifiers: list[bytes] | None
    ) -> tuple[Packets, list[int]]:
        """Packets of stored messages, with what each row has as subscription identifiers, without those that are too
        large for the receiver, whose places are given as well. `heads` go out as they are."""
        encoder, now = self._encoder(manner), self._now_ms()
        if identifiers is None or manner.version == 4:
            data = encoder.encode(source, spans, heads, now)
        else:
            ends = array("i", accumulate(map(len, identifiers)))
            of = array("i", range(len(identifiers)))
            data = encoder.encode(
                source, spans, heads, now, prefixes=b"".join(identifiers), prefix_ends=ends, prefix_of=of
            )
        packets = Packets(data, encoder.ends(), heads, encoder.id_positions())
        oversized = oversized_places(packets.ends)
        return (without(packets, oversized) if oversized else packets), oversized

    def _encoder(self, manner: Manner) -> PublishEncoder:
        key = manner.version, manner.max_packet_bytes
        found = self._encoders.get(key)
        if found is None:
            if len(self._encoders) >= _MAX_ENCODERS:
                self._encoders.clear()
            found = self._encoders[key] = PublishEncoder(*key)
        return found


def arrived_again(packets: Sequence[Publish], now_ms: int) -> Arrived:
    """Packets that were encoded for somebody else."""
    left_s = [packet.properties.message_expiry_interval_s for packet in packets]
    columns = Columns.of(
        [packet.payload for packet in packets],
        topics=[packet.topic.encode() for packet in packets],
        properties=[packed(packet.properties) for packet in packets],
        expiry=[0 if each is None else now_ms + 1000 * each for each in left_s],
    )
    topics, source = columns.topics, columns.source
    assert topics is not None
    names = [bytes(source[start:end]) for start, end in zip(topics.starts, topics.ends, strict=True)]
    heads = bytes([_PUBLISH | packet.qos << 1 | packet.retain for packet in packets])
    return Arrived(columns, names, heads, array("i", bytes(4 * len(packets))), True)


def spans_of(columns: Columns, rows: array[int]) -> array[int]:
    topics, properties = columns.topics, columns.properties
    spans = array("q", bytes(8 * SPAN_WORDS * len(rows)))
    column_spans(
        columns.topic_index,
        None if topics is None else topics.starts,
        None if topics is None else topics.ends,
        None if properties is None else properties.starts,
        None if properties is None else properties.ends,
        columns.value.starts,
        columns.value.ends,
        columns.expiry,
        rows,
        spans,
    )
    return spans


def _verbatim(arrived: Arrived, manner: Manner) -> Packets | None:
    """The packets as they came, if that is what the receivers get."""
    same = arrived.verbatim
    if same is None or same.version != manner.version or manner.identifiers:
        return None
    size = same.ends[-1]
    heads = arrived.heads
    if size > manner.max_packet_bytes or heads.translate(_HEADS[manner.qos, manner.retain_as_published]) != heads:
        return None
    positions = same.id_positions
    if not heads[0] & 6 or heads.count(heads[0]) < len(heads):
        positions = array("i", [place for place, head in zip(positions, heads, strict=True) if head & 6])
    return Packets(bytes(arrived.columns.source[:size]), same.ends, heads, positions)


def _expiries(spans: array[int]) -> array[int] | None:
    found = spans[SPAN_WORDS - 1 :: SPAN_WORDS]
    return found if any(found) else None


def rows_of_topics(columns: Columns, numbers: Sequence[int]) -> array[int]:
    assert columns.topics is not None and columns.topic_index is not None
    if len(numbers) == len(columns.topics.starts):
        return array("i", range(columns.count))
    marks = bytearray(len(columns.topics.starts))
    for number in numbers:
        marks[number] = 1
    chosen = bytearray(columns.count)
    kernel.mark_by_number(memoryview(columns.topic_index), marks, chosen)
    return array("i", [row for row, mark in enumerate(chosen) if mark])


def _single(route: Route, count: int, publisher: Session | None) -> list[Sent]:
    if not (route.live or route.not_local):
        return []
    rows = array("i", range(count))
    sent: list[Sent] = [(manner, rows, sessions) for manner, sessions in route.live.items()]
    for manner, sessions in route.not_local.items():
        sent.append((manner, rows, [session for session in sessions if session is not publisher]))
    return sent


def _several(columns: Columns, routes: Sequence[Route], publisher: Session | None) -> list[Sent]:
    """Rows of several topics that go to a session in the same manner stay in their order."""
    topics: dict[tuple[Manner, Session], list[int]] = {}
    for number, route in enumerate(routes):
        for manner, sessions in route.live.items():
            for session in sessions:
                topics.setdefault((manner, session), []).append(number)
        for manner, sessions in route.not_local.items():
            for session in sessions:
                if session is not publisher:
                    topics.setdefault((manner, session), []).append(number)
    together: dict[tuple[Manner, tuple[int, ...]], list[Session]] = {}
    for (manner, session), numbers in topics.items():
        together.setdefault((manner, tuple(numbers)), []).append(session)
    return [(manner, rows_of_topics(columns, numbers), sessions) for (manner, numbers), sessions in together.items()]
