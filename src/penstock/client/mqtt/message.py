"""A message that a client received."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties


@dataclass(frozen=True, slots=True)
class Message:
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    """it was kept by the server, and is not new"""
    is_duplicate: bool = False
    """it may have come before"""
    properties: Properties = NO_PROPERTIES
    packet_id: int = 0
    epoch: int = 0
    """the connection (QoS 1) or the session (QoS 2) in which it can be acknowledged"""

    def header(self, name: str) -> str | None:
        """The first user property of this name."""
        return next(iter(self.properties.user_values(name)), None)
