"""Deliveries as frames, straight from stored batches."""

from __future__ import annotations

from array import array

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.stored import StoredBatch
from penstock.core.timeline import Timeline
from penstock.gateways.amqp091.routes import Routes
from penstock.kernels.amqp_deliver import SPAN_WORDS, Encoder, batch_spans
from penstock.log.batch import EXPIRY
from penstock.log.view import amqp091_of
from penstock.queues.exchange_topics import DEFAULT_EXCHANGE, exchange_topic

_PROPS = 2


def encoded(encoder: Encoder, delivery: Delivery, first_tag: int, routes: Routes, timeline: Timeline) -> bytearray:
    """Frames of all of its messages, with tags that rise by one; encoder.ends() says where those of each end. Those
    that are too long for the receiver's frames are left out."""
    stored, rows, counts = delivery.stored, delivery.rows, delivery.deliveries
    batch, texts = stored.batch, stored.topics()
    if texts is None:
        texts = [exchange_topic(DEFAULT_EXCHANGE, delivery.group.queue.name.encode())]
    known = [routes.route(text) for text in texts]
    ends, end = array("i"), 0
    for route in known:
        end += len(route)
        ends.append(end)
    spans = array("q", bytes(8 * SPAN_WORDS * len(rows)))
    without = batch_spans(batch.body, batch.layout, rows, ends, spans)
    redelivered = b"" if counts is None else bytes([count > 1 for count in counts])
    if not without:
        return encoder.encode(batch.body, spans, b"".join(known), first_tag, redelivered)
    blocks, block_ends = _made(stored, rows, spans, without, timeline)
    return encoder.encode(batch.body, spans, b"".join(known), first_tag, redelivered, blocks, block_ends)


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
