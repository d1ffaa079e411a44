"""Wills: what is published for a client that is gone without a word."""

from __future__ import annotations

from array import array

from penstock.broker.sessions.records import Will as StoredWill
from penstock.codecs.mqtt.packets import Will
from penstock.gateways.mqtt.arrival import Arrived
from penstock.gateways.mqtt.packed import packed
from penstock.log.columns import Columns

_PUBLISH = 0x30


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


def arrived_will(will: StoredWill, now_ms: int) -> Arrived:
    """As if its client had published it now."""
    head = _PUBLISH | will.qos << 1 | will.retain
    columns = Columns.of(
        [will.value],
        topics=[will.topic],
        properties=[will.properties] if will.properties else None,
        expiry=[now_ms + 1000 * will.expiry_s] if will.expiry_s else None,
    )
    return Arrived(columns, [will.topic], bytes([head]), array("i", [0]), bool(will.properties))
