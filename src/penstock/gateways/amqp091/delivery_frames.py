"""Deliveries as frames, straight from stored batches."""

from __future__ import annotations

from array import array
from itertools import accumulate

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.stored import StoredBatch
from penstock.core.timeline import Timeline
from penstock.gateways.amqp091.routes import Routes
from penstock.kernels.amqp_deliver import SPAN_WORDS, Encoder, batch_spans
from penstock.log.batch import EXPIRY
from penstock.log.view import amqp091_of
from penstock.queues.exchange_topics import DEFAULT_EXCHANGE, exchange_topic

_PROPS = 2
# Of a batch that is kept in memory because messages of it were delivered last: each consumer may have one.
_KEPT_BYTES = 16 << 10


class DeliveryFrames:
    """Of one encoder."""

    __slots__ = ("_ends", "_known", "_routes", "_stored", "_timeline", "encoder")

    def __init__(self, encoder: Encoder, routes: Routes, timeline: Timeline) -> None:
        self.encoder, self._routes, self._timeline = encoder, routes, timeline
        self._stored: StoredBatch | None = None
        """the batch that was looked at last, whose routes these are"""
        self._known, self._ends = b"", array("i")

    def encode(self, delivery: Delivery, first_tag: int) -> bytearray:
        """Frames of all of its messages, with tags that rise by one; encoder.ends() says where those of each end. Those
        that are too long for the receiver's frames are left out."""
        stored, rows, counts = delivery.stored, delivery.rows, delivery.deliveries
        batch, encoder = stored.batch, self.encoder
        if stored is not self._stored:
            self._look_at(delivery)
        spans = array("q", bytes(8 * SPAN_WORDS * len(rows)))
        without = batch_spans(batch.body, batch.layout, rows, self._ends, spans)
        redelivered = b"" if counts is None else bytes([count > 1 for count in counts])
        if not without:
            return encoder.encode(batch.body, spans, self._known, first_tag, redelivered)
        blocks, block_ends = _made(stored, rows, spans, without, self._timeline)
        return encoder.encode(batch.body, spans, self._known, first_tag, redelivered, blocks, block_ends)

    def _look_at(self, delivery: Delivery) -> None:
        stored = delivery.stored
        self._stored = stored if len(stored.data) <= _KEPT_BYTES else None
        texts = stored.topics()
        if texts is None:
            texts = [exchange_topic(DEFAULT_EXCHANGE, delivery.group.queue.name.encode())]
        known = [self._routes.route(text) for text in texts]
        self._known, self._ends = b"".join(known), array("i", accumulate(map(len, known)))


def _made(
    stored: StoredBatch, rows: array[int], spans: array[int], without: int, timeline: Timeline
) -> tuple[bytes, array[int]]:
    """Properties of messages that came by another protocol."""
    picked = rows
    if without < len(rows):
        picked = array("i", [row for place, row in enumerate(rows) if spans[SPAN_WORDS * place + _PROPS] < 0])
    batch, left = stored.batch, None
    expiries = batch.fixed_column(EXPIRY)
    if expiries is not None:
        now, times = timeline.now_at(batch.header.base_timestamp), expiries.cast("q")
        left = array("q", [max(times[row] - now, -1) if times[row] else 0 for row in picked])
    data, found = amqp091_of(batch, picked, left)
    return bytes(data), found.ends
