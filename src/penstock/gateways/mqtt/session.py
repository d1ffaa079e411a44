"""A client as the broker knows it, from its first CONNECT to the end of its session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.codecs.mqtt.inflight import Incoming, Outgoing
from penstock.codecs.mqtt.kinds import MAX_PACKET_BYTES, Version
from penstock.codecs.mqtt.packets import Will
from penstock.gateways.mqtt.packets import Packets
from penstock.gateways.mqtt.subscription import Subscription

if TYPE_CHECKING:
    from penstock.broker.sessions.session import Session as StoredSession
    from penstock.gateways.mqtt.connection import Connection


class Session:
    """Its identity is the object; a client that starts clean gets another one."""

    __slots__ = (
        "client_id",
        "connection",
        "expiry_s",
        "incoming",
        "max_packet_bytes",
        "namespace",
        "outgoing",
        "stored",
        "subscriptions",
        "version",
        "will",
    )

    outgoing: Outgoing
    incoming: Incoming
    """both are there while it is connected"""

    def __init__(self, client_id: str, namespace: str, stored: StoredSession | None = None) -> None:
        self.client_id, self.namespace, self.stored = client_id, namespace, stored
        self.version = Version.V5
        self.max_packet_bytes = MAX_PACKET_BYTES
        self.expiry_s = 0
        self.subscriptions: dict[str, Subscription] = {}
        """those that are matched with topics: not those to queues"""
        self.connection: Connection | None = None
        self.will: Will | None = None
        """of a session that ends with its connection"""

    @property
    def is_stored(self) -> bool:
        """Whether it outlives its connection, and a restart."""
        return self.stored is not None

    @property
    def is_behind(self) -> bool:
        """Whether it has not taken what it was sent."""
        return self.connection is None or self.connection.sender.is_behind

    def push(self, packets: Packets) -> None:
        """To be sent at once, or as soon as the client takes more; nothing if it is not connected."""
        if self.connection is not None:
            self.connection.sender.send(packets)
