"""Properties of a single message as logs store them."""

from __future__ import annotations

from penstock.codecs.mqtt.properties import Properties
from penstock.queues.properties import Envelope, pack


def packed(properties: Properties) -> bytes:
    """Without what is between a client and its server only: alias, expiry, subscription identifiers, will delay."""
    format_indicator = properties.payload_format_indicator
    return pack(
        Envelope(
            properties.user_properties,
            properties.content_type,
            properties.response_topic,
            properties.correlation_data,
            b"" if format_indicator is None else bytes([1, format_indicator]),
        )
    )
