"""Wills: what is published for a client that is gone without a word."""

from __future__ import annotations

from penstock.broker.publish.publisher import Publisher
from penstock.broker.sessions.records import Will as StoredWill
from penstock.broker.sessions.targets import RETAIN
from penstock.broker.topics.publication import OneSource, Publication
from penstock.broker.topics.subscriptions import Subscriber
from penstock.codecs.mqtt.packets import Will
from penstock.gateways.mqtt.outbound.packed import packed
from penstock.log.columns import Columns


def stored_will(will: Will | None) -> StoredWill | None:
    if will is None:
        return None
    properties = will.properties
    return StoredWill(
        will.topic.encode(),
        will.payload,
        packed(properties),
        will.qos,
        will.retain,
        properties.will_delay_interval_s or 0,
        properties.message_expiry_interval_s or 0,
    )


def will_bytes(will: StoredWill | None) -> int:
    return 0 if will is None else len(will.topic) + len(will.value) + len(will.properties)


def published_will(
    will: StoredWill, now_ms: int, publisher: Publisher, namespace: str, source: Subscriber | None
) -> Publication:
    """As if its client had published it now."""
    columns = Columns.of(
        [will.value],
        topics=[will.topic],
        properties=[will.properties] if will.properties else None,
        expiry=[now_ms + 1000 * will.expiry_s] if will.expiry_s else None,
    )
    flags = bytes([will.qos | (RETAIN if will.retain else 0)])
    sources = None if source is None else OneSource(source, 1)
    return Publication(columns, [will.topic], flags, publisher, namespace, sources)
