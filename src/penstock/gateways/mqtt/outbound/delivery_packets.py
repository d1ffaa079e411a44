"""Deliveries of a queue as packets: what queues.md promises that each of them carries, straight from stored batches."""

from __future__ import annotations

from array import array

from penstock.broker.feed.delivery import Delivery
from penstock.broker.queues.group import Group
from penstock.gateways.mqtt.outbound.packets import Packets, oversized_places, without
from penstock.kernels import rows
from penstock.kernels.mqtt_encode import SPAN_WORDS, batch_spans
from penstock.kernels.mqtt_publish import PublishEncoder

_USER_PROPERTY = b"\x26"
_OFFSET, _DELIVERIES, _TIMESTAMP = range(3)
# Of so many a list is made faster than columns are read.
_A_FEW = 16
# More than a packet has beside what is stored: its properties name queue, group and message.
_BESIDE_BYTES = 64 << 10


class DeliveryPackets:
    """For one client that consumes a group."""

    def __init__(self, group: Group, version: int, max_packet_bytes: int) -> None:
        self._group, self._version, self._max_packet_bytes = group, version, max_packet_bytes
        self._encoders: dict[int, PublishEncoder] = {}

    def encode(self, delivery: Delivery, qos: int, now_ms: int) -> tuple[Packets, list[int]]:
        """Without those that are too large for the client, whose places are given as well."""
        heads, encoder = _head(qos) * len(delivery.rows), self._encoder(delivery.unit.partition)
        data = self._encoded(encoder, delivery, heads, now_ms, None)
        packets = Packets(data, encoder.ends(), heads, encoder.id_positions())
        oversized = oversized_places(packets.ends)
        return (without(packets, oversized) if oversized else packets), oversized

    def fit(self, delivery: Delivery) -> bool:
        """Whether none of them can be too large for the client."""
        return len(delivery.stored.batch.body) + _BESIDE_BYTES <= self._max_packet_bytes

    def encode_with_ids(self, delivery: Delivery, qos: int, now_ms: int, packet_ids: list[int]) -> bytearray:
        """What encode() gives, where they fit, with identifiers in it."""
        heads, encoder = _head(qos) * len(delivery.rows), self._encoder(delivery.unit.partition)
        return self._encoded(encoder, delivery, heads, now_ms, array("i", packet_ids))

    def _encoded(
        self, encoder: PublishEncoder, delivery: Delivery, heads: bytes, now_ms: int, packet_ids: array[int] | None
    ) -> bytearray:
        batch = delivery.stored.batch
        spans = array("q", bytes(8 * SPAN_WORDS * len(heads)))
        batch_spans(batch.body, batch.layout, delivery.rows, spans)
        numbers = _numbers(delivery) if self._version == 5 else None
        return encoder.encode(batch.body, spans, heads, now_ms, packet_ids=packet_ids, numbers=numbers)

    def _encoder(self, partition: int) -> PublishEncoder:
        found = self._encoders.get(partition)
        if found is None:
            queue = self._group.queue
            prefix = queue.name if queue.name.startswith("$") else f"$queue/{queue.name}"
            template, fields = self._template(partition)
            found = self._encoders[partition] = PublishEncoder(
                self._version, self._max_packet_bytes, prefix.encode(), template, fields
            )
        return found

    def _template(self, partition: int) -> tuple[bytes, array[int]]:
        queue = self._group.queue
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
            ("consumer-group", self._group.record.name),
        ):
            made += _USER_PROPERTY + _string(name) + _string(text)
        return bytes(made), fields


def _numbers(delivery: Delivery) -> array[int]:
    """Offsets, how often each was delivered, timestamps: of all rows one, then of all rows the next."""
    count, stored = len(delivery.rows), delivery.stored
    header = stored.batch.header
    if count <= _A_FEW and delivery.is_whole and header.base_timestamp == header.max_timestamp:
        return array("q", [*range(stored.first, stored.end), *[1] * count, *[header.base_timestamp] * count])
    out = delivery.offsets
    out.extend(array("q", [1]) * count if delivery.deliveries is None else array("q", delivery.deliveries))
    times = array("q", bytes(8 * count))
    rows.take_int64(stored.batch.timestamps(), delivery.rows, times)
    out.extend(times)
    return out


def _head(qos: int) -> bytes:
    return bytes((0x30 | qos << 1,))


def _string(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data
