"""Deliveries of queues as packets: what queues.md promises that each of them carries, straight from stored batches."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.group import Group
from penstock.core.ports import Buffer
from penstock.core.queue_paths import queue_topic
from penstock.core.timeline import Timeline
from penstock.gateways.mqtt.outbound.packets import oversized_places
from penstock.kernels import rows
from penstock.kernels.mqtt_encode import SPAN_WORDS, batch_spans, whole_spans
from penstock.kernels.mqtt_publish import PublishEncoder, Template
from penstock.log.header import MAX_BODY_BYTES

_USER_PROPERTY = b"\x26"
_OFFSET, _DELIVERIES, _TIMESTAMP = range(3)
# More than a packet has beside what is stored: its properties name queue, group and message.
_BESIDE_BYTES = 64 << 10
_EXPIRES = 6


class DeliveryPackets:
    """For one client."""

    def __init__(self, version: int, max_packet_bytes: int) -> None:
        self._max_packet_bytes = max_packet_bytes
        self._encoder = PublishEncoder(version, max_packet_bytes)

    def fit(self, deliveries: Sequence[Delivery]) -> bool:
        """Whether none of them can be too large for the client."""
        room = self._max_packet_bytes - _BESIDE_BYTES
        return room >= MAX_BODY_BYTES or max([_body_bytes(each.stored) for each in deliveries]) <= room

    def oversized(self, delivery: Delivery, template: Template, qos: int, timeline: Timeline) -> list[int]:
        """The places of those that are too large for the client."""
        self.encode([delivery], [template], array("i", [len(delivery)]), qos, timeline, ())
        return oversized_places(self._encoder.ends())

    def encode(
        self,
        deliveries: Sequence[Delivery],
        templates: list[Template],
        stops: array[int],
        qos: int,
        timeline: Timeline,
        packet_ids: Sequence[int],
    ) -> bytearray:
        """One packet behind the other; those of delivery i, to which template i belongs, end before row stops[i]. Those
        that are too large for the client are left out."""
        count = stops[-1]
        spans, numbers = array("q", bytes(8 * SPAN_WORDS * count)), array("q", bytes(24 * count))
        now = timeline.now()
        sources: list[Buffer] = []
        plain: list[Buffer] = []
        firsts = array("i")
        start = 0
        for delivery, stop in zip(deliveries, stops, strict=True):
            stored = delivery.stored
            is_whole = delivery.deliveries is None and stop - start == stored.end - stored.first
            if stored.is_dense and is_whole and not stored.has_native:
                plain.append(stored.data)
                sources.append(stored.data)
                firsts.append(start)
            else:
                sources.append(stored.view.body)
                _put(delivery, start, stop, now - timeline.now_at(stored.batch.header.base_timestamp), spans, numbers)
            start = stop
        whole_spans(plain, firsts, spans, numbers)
        ids = array("i", packet_ids) if packet_ids else None
        return self._encoder.encode_each(sources, templates, stops, spans, _head(qos) * count, now, ids, numbers)

    def ends(self) -> array[int]:
        """Of the last encoding: where each packet ends."""
        return self._encoder.ends()


def _body_bytes(stored: StoredBatch) -> int:
    return len(stored.data) if stored.is_dense and not stored.has_native else len(stored.view.body)


def _put(delivery: Delivery, start: int, stop: int, later_ms: int, spans: array[int], numbers: array[int]) -> None:
    """What encode() needs to know of some rows of a batch, whose expiries count by a clock of their own."""
    stored, count = delivery.stored, len(numbers) // 3
    words = memoryview(spans)[SPAN_WORDS * start : SPAN_WORDS * stop]
    shown = stored.view
    batch_spans(shown.body, shown.layout, delivery.rows, words)
    for at in range(_EXPIRES, len(words), SPAN_WORDS):
        if words[at]:
            words[at] = max(words[at] + later_ms, 1)
    columns = memoryview(numbers)
    columns[start:stop] = delivery.offsets
    columns[count + start : count + stop] = array("q", delivery.counts)
    rows.take_int64(stored.batch.timestamps(), delivery.rows, columns[2 * count + start : 2 * count + stop])


def template_of(group: Group, partition: int) -> Template:
    """What the messages of a partition have in common for those who consume the group."""
    queue = group.queue
    made, fields = bytearray(), array("i")
    for name, number, text in (
        ("message-id", _OFFSET, queue.message_id_prefix(partition)),
        ("offset", _OFFSET, ""),
        ("delivery-count", _DELIVERIES, ""),
        ("timestamp", _TIMESTAMP, ""),
    ):
        made += _USER_PROPERTY + _string(name)
        start = len(made)
        made += text.encode()
        fields.extend((start, len(made), number))
    for name, text in (
        ("queue", queue.name),
        ("partition", str(partition)),
        ("consumer-group", group.record.name),
    ):
        made += _USER_PROPERTY + _string(name) + _string(text)
    return Template(queue_topic(queue.name).encode(), bytes(made), fields)


def _head(qos: int) -> bytes:
    return bytes((0x30 | qos << 1,))


def _string(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data
