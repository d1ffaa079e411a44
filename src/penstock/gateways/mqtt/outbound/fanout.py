"""Messages to clients that are connected: encoded once for all who get the same bytes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol, cast

from penstock.broker.publish.publisher import Publisher
from penstock.broker.topics.publication import QOS, Publication
from penstock.broker.topics.subscriptions import Manner, Share, Some, Subscriber
from penstock.codecs.mqtt.packets import Publish
from penstock.codecs.mqtt.wire import varint_bytes
from penstock.core.ports import Buffer
from penstock.core.timeline import Timeline
from penstock.gateways.mqtt.inbound.arrival import FLAGS, Verbatim
from penstock.gateways.mqtt.inbound.topic_aliases import TopicAliases
from penstock.gateways.mqtt.outbound.packed import packed
from penstock.gateways.mqtt.outbound.packets import Packets, in_order, oversized_places, without
from penstock.gateways.mqtt.outbound.sender import Sender
from penstock.kernels.mqtt_encode import SPAN_WORDS, column_spans, mark_aliases
from penstock.kernels.mqtt_publish import PublishEncoder
from penstock.log.columns import Columns

_MAX_AUDIENCES = 256
_PUBLISH = 0x30
_SUBSCRIPTION_IDENTIFIER = b"\x0b"


def _head_table(qos: int, keeps_retain: bool) -> bytes:
    """What the flags of a message make of the first byte of its packet."""
    return bytes([_PUBLISH | min(flag & QOS, qos) << 1 | (flag >> 2 & 1 if keeps_retain else 0) for flag in range(256)])


_HEADS = {(qos, keeps): _head_table(qos, keeps) for qos in range(3) for keeps in (False, True)}


class Connected(Protocol):
    sender: Sender
    topic_aliases: TopicAliases | None


class Receiver(Protocol):
    """A session."""

    @property
    def connection(self) -> Connected | None: ...

    def push(self, packets: Packets) -> None:
        """To be sent at once, or as soon as the client takes more; nothing if it is not connected."""


class FanOut:
    """All audiences of a gateway."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self._audiences: dict[tuple[int, int], MqttAudience] = {}
        self._encoders: dict[MqttAudience, PublishEncoder] = {}

    def audience(self, version: int, max_packet_bytes: int) -> MqttAudience:
        key = version, max_packet_bytes
        found = self._audiences.get(key)
        if found is None:
            if len(self._audiences) >= _MAX_AUDIENCES:
                # Those who have one keep it.
                self._audiences.clear()
            found = self._audiences[key] = MqttAudience(self, version, max_packet_bytes)
        return found

    def encoder(self, audience: MqttAudience) -> PublishEncoder:
        """They are large: who asks for sizes that nobody else does is no reason to keep more of them."""
        found = self._encoders.get(audience)
        if found is None:
            if len(self._encoders) >= _MAX_AUDIENCES:
                self._encoders.clear()
            found = self._encoders[audience] = PublishEncoder(audience.version, audience.max_packet_bytes)
        return found


class MqttAudience:
    """Clients of one version that take packets of the same size."""

    __slots__ = ("_fanout", "max_packet_bytes", "version")

    def __init__(self, fanout: FanOut, version: int, max_packet_bytes: int) -> None:
        self._fanout, self.version, self.max_packet_bytes = fanout, version, max_packet_bytes

    def deliver(
        self,
        publication: Publication,
        manner: Manner,
        rows: array[int],
        subscribers: Sequence[Subscriber],
        share: Share | None = None,
    ) -> None:
        packets: Packets | None = None
        for receiver in cast("Sequence[Receiver]", subscribers):
            connection = receiver.connection
            if connection is None or (share is None and self._push_aliased(publication, manner, rows, connection)):
                continue
            if packets is None:
                packets = self._encode(publication, manner, rows)[0]
                packets.share = share
            receiver.push(packets)

    def deliver_mixed(self, publication: Publication, subscriber: Subscriber, parts: Sequence[Some]) -> None:
        """What follows each other in the same manner goes out together; without aliases, for few clients mix."""
        encoded: list[tuple[Packets, array[int]]] = []
        for manner, rows, share in parts:
            packets, gone = self._encode(publication, manner, rows)
            left_out = set(gone)
            packets.share = share
            encoded.append((packets, array("i", [row for place, row in enumerate(rows) if place not in left_out])))
        for packets in in_order(encoded):
            cast("Receiver", subscriber).push(packets)

    def _push_aliased(self, publication: Publication, manner: Manner, rows: array[int], connection: Connected) -> bool:
        """With topic aliases, if the client takes any and all of it can go out now."""
        aliases, index = connection.topic_aliases, publication.columns.topic_index
        if aliases is None or index is None or connection.sender.room < len(rows):
            return False
        numbers = aliases.of(publication.topics)
        marks = array("i", bytes(4 * len(rows)))
        mark_aliases(index, rows, numbers, marks)
        packets = self._encode(publication, manner, rows, marks)[0]
        if len(packets) < len(rows):
            return False
        connection.sender.send_now(packets)
        aliases.told(publication.topics, numbers)
        return True

    def _encode(
        self, publication: Publication, manner: Manner, rows: array[int], aliases: array[int] | None = None
    ) -> tuple[Packets, list[int]]:
        """And the places of those that are too large for the receiver, which are left out."""
        flags, is_all = publication.flags, len(rows) == len(publication.flags)
        if aliases is None and is_all and (same := self._verbatim(publication, manner)) is not None:
            return same, []
        shown = publication.shown
        mine = flags if is_all else bytes([flags[row] for row in rows])
        return self.encode(shown.source, spans_of(shown, rows), mine, manner, aliases)

    def encode(
        self,
        source: Buffer,
        spans: array[int],
        flags: bytes,
        manner: Manner,
        aliases: array[int] | None = None,
        stamp: int | None = None,
    ) -> tuple[Packets, list[int]]:
        """And the places of those that are left out, because they are too large for the receiver. `stamp`: of messages
        that were stored; others expire by the wall clock of now."""
        heads = flags.translate(_HEADS[manner.qos, manner.retain_as_published])
        encoder, timeline = self._fanout.encoder(self), self._fanout.timeline
        now = timeline.wall() if stamp is None else timeline.now_at(stamp)
        prefixes = identifiers_of(manner.identifiers)
        data = encoder.encode(source, spans, heads, now, aliases=aliases, prefixes=prefixes)
        packets = Packets(data, encoder.ends(), heads, encoder.id_positions(), _expiries(spans, now - timeline.now()))
        oversized = oversized_places(packets.ends)
        return (without(packets, oversized) if oversized else packets), oversized

    def encode_stored(
        self, source: Buffer, spans: array[int], heads: bytes, identifiers: Sequence[tuple[int, ...]] | None, stamp: int
    ) -> tuple[Packets, list[int]]:
        """Packets of messages that were stored then, with what each row has as subscription identifiers, without those
        that are too large for the receiver, whose places are given as well. `heads` go out as they are."""
        encoder, now = self._fanout.encoder(self), self._fanout.timeline.now_at(stamp)
        if identifiers is None or self.version == 4:
            data = encoder.encode(source, spans, heads, now)
        else:
            prefixes = [identifiers_of(each) for each in identifiers]
            ends = array("i", accumulate(map(len, prefixes)))
            of = array("i", range(len(prefixes)))
            data = encoder.encode(
                source, spans, heads, now, prefixes=b"".join(prefixes), prefix_ends=ends, prefix_of=of
            )
        packets = Packets(data, encoder.ends(), heads, encoder.id_positions())
        oversized = oversized_places(packets.ends)
        return (without(packets, oversized) if oversized else packets), oversized

    def _verbatim(self, publication: Publication, manner: Manner) -> Packets | None:
        """The packets as they came, if that is what the receivers get."""
        if not isinstance(publication.as_it_came, tuple) or manner.identifiers:
            return None
        same = Verbatim(*publication.as_it_came)
        if same.version != self.version:
            return None
        stop, heads = same.ends[-1], same.heads
        table = _HEADS[manner.qos, manner.retain_as_published]
        if stop - same.start > self.max_packet_bytes or publication.flags.translate(table) != heads:
            return None
        positions = same.shifted(same.id_positions)
        if not heads[0] & 6 or heads.count(heads[0]) < len(heads):
            positions = array("i", [place for place, head in zip(positions, heads, strict=True) if head & 6])
        return Packets(bytes(publication.columns.source[same.start : stop]), same.shifted(same.ends), heads, positions)


def identifiers_of(numbers: tuple[int, ...]) -> bytes:
    """Of subscriptions, as properties."""
    return b"".join([_SUBSCRIPTION_IDENTIFIER + varint_bytes(number) for number in numbers])


def publication_again(packets: Sequence[Publish], now_ms: int, publisher: Publisher, namespace: str) -> Publication:
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
    return Publication(columns, names, heads.translate(FLAGS), publisher, namespace)


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


def _expiries(spans: array[int], shift: int) -> array[int] | None:
    """In running time, which is so much less than the clock that they are by."""
    found = spans[SPAN_WORDS - 1 :: SPAN_WORDS]
    return array("q", [max(time - shift, 1) if time else 0 for time in found]) if any(found) else None
