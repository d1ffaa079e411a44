"""A client as the broker knows it, from its first CONNECT to the end of its session."""

from __future__ import annotations

from typing import Protocol

from penstock.broker.auth.identity import Identity
from penstock.broker.queues.group import Group
from penstock.broker.sessions.session import Session as StoredSession
from penstock.broker.topics.subscriptions import Subscription
from penstock.codecs.mqtt.inflight import Incoming, Outgoing
from penstock.codecs.mqtt.kinds import MAX_PACKET_BYTES, Version
from penstock.codecs.mqtt.packets import Will
from penstock.gateways.mqtt.outbound.fanout import Connected, MqttAudience
from penstock.gateways.mqtt.outbound.packets import Packets
from penstock.gateways.wire.budget import Budget
from penstock.gateways.wire.slot import SlotTransport

# What a filter takes beside its text, measured: 360 bytes, 680 as a share of its own. A few are part of what a session
# takes, as are a short will and some identifiers of QoS 2, of which one takes 130 bytes, 200 where it is stored.
_FILTER_BYTES, _FEW_FILTERS = 400, 16
_SHORT_WILL_BYTES = 1 << 10
_HELD_BYTES, FEW_HELD = 150, 1000


def filter_bytes(filter: str) -> int:
    return len(filter) if filter.isascii() else len(filter.encode())


def beyond_short(will_bytes: int) -> int:
    """What a will of this size costs."""
    return max(will_bytes - _SHORT_WILL_BYTES, 0)


class Link(Connected, Protocol):
    """The connection of a client, as far as its session has to know it."""

    transport: SlotTransport

    @property
    def is_about_to_send(self) -> bool:
        """Whether there is something stored that the client would take now."""

    def overflown(self) -> None:
        """More waits for the client than may."""


class Session:
    """Its identity is the object; a client that starts clean gets another one."""

    __slots__ = (
        "audience",
        "claimed_bytes",
        "client_id",
        "connection",
        "expiry_s",
        "filter_bytes",
        "groups",
        "identity",
        "incoming",
        "max_packet_bytes",
        "namespace",
        "outgoing",
        "queue_filters",
        "stored",
        "subscriptions",
        "version",
        "will",
        "will_bytes",
    )

    outgoing: Outgoing
    incoming: Incoming
    audience: MqttAudience
    """they are there while it is connected"""

    def __init__(self, client_id: str, namespace: str, stored: StoredSession | None = None) -> None:
        self.client_id, self.namespace, self.stored = client_id, namespace, stored
        self.version = Version.V5
        self.max_packet_bytes = MAX_PACKET_BYTES
        self.expiry_s = 0
        self.subscriptions: dict[str, Subscription] = {}
        """those that are matched with topics: not those to queues"""
        self.queue_filters: set[str] | None = None
        """the others"""
        self.filter_bytes = 0
        """of all of them"""
        self.groups: dict[str, Group] = {}
        """those of queues that wait for it while it is away, by filter"""
        self.connection: Link | None = None
        self.identity: Identity | None = None
        """who connected last; None after a restart"""
        self.will: Will | None = None
        """of a session that ends with its connection"""
        self.will_bytes = 0
        """of the one that it began with, or went on with"""
        self.claimed_bytes = 0
        """of the budget for what clients have the server keep"""

    @property
    def is_connected(self) -> bool:
        return self.connection is not None

    @property
    def is_stored(self) -> bool:
        """Whether it outlives its connection, and a restart."""
        return self.stored is not None

    @property
    def is_storing(self) -> bool:
        """Whether something is stored for it now, or is about to be sent from there."""
        if self.stored is None or self.connection is None:
            return False
        return self.stored.reserved > 0 or self.connection.is_about_to_send

    @property
    def is_behind(self) -> bool:
        """Whether it has not taken what it was sent."""
        return self.connection is None or self.connection.sender.is_behind

    def overflown(self) -> None:
        if self.connection is not None:
            self.connection.overflown()

    # What it subscribed to

    def has_filter(self, filter: str) -> bool:
        return filter in self.subscriptions or (self.queue_filters is not None and filter in self.queue_filters)

    @property
    def filter_count(self) -> int:
        return len(self.subscriptions) + len(self.queue_filters or ())

    def with_filter(self, filter: str) -> int:
        """Bytes that it would claim with this one more."""
        more = _FILTER_BYTES if self.filter_count >= _FEW_FILTERS else 0
        return self.claimed_bytes + filter_bytes(filter) + more

    def claim(self, names: Budget) -> None:
        """As much of the budget as it needs now."""
        needed = self.filter_bytes + _FILTER_BYTES * max(self.filter_count - _FEW_FILTERS, 0)
        if self.will_bytes and (self.stored is None or self.stored.will is not None):
            needed += beyond_short(self.will_bytes)
        needed += _HELD_BYTES * max(self._held - FEW_HELD, 0)
        if needed != self.claimed_bytes:
            names.take(needed - self.claimed_bytes)
            self.claimed_bytes = needed

    @property
    def _held(self) -> int:
        """Identifiers of QoS 2."""
        if self.connection is not None:
            return self.incoming.held_count
        return 0 if self.stored is None else len(self.stored.held)

    def add_filter(self, filter: str, subscription: Subscription | None, names: Budget) -> None:
        """To topics, or to a queue if there is no subscription to match with them; what was there before goes. `names`
        is the budget of filters."""
        if not self.has_filter(filter):
            self.filter_bytes += filter_bytes(filter)
        if subscription is None:
            self.subscriptions.pop(filter, None)
            self.queue_filters = self.queue_filters or set()
            self.queue_filters.add(filter)
        else:
            if self.queue_filters is not None:
                self.queue_filters.discard(filter)
            self.subscriptions[filter] = subscription
        self.claim(names)

    def remove_filter(self, filter: str, names: Budget) -> None:
        """Nothing if it is not there."""
        if self.has_filter(filter):
            self.filter_bytes -= filter_bytes(filter)
            self.subscriptions.pop(filter, None)
            if self.queue_filters is not None:
                self.queue_filters.discard(filter)
            self.claim(names)

    def give_up(self, names: Budget) -> None:
        """It is over: no filters, and nothing that it has kept."""
        self.subscriptions, self.queue_filters, self.filter_bytes = {}, None, 0
        names.take(-self.claimed_bytes)
        self.claimed_bytes = 0

    def keep(self, filter: str, group: Group) -> None:
        """The group waits for it while it is away, if it outlives its connection."""
        if self.groups.get(filter) is not group:
            self.let_go(filter)
            if self.is_stored:
                self.groups[filter] = group
                group.keep_for((self, filter))

    def let_go(self, filter: str) -> None:
        """The subscription ended."""
        if (group := self.groups.pop(filter, None)) is not None:
            group.let_go((self, filter))

    def push(self, packets: Packets) -> None:
        """To be sent at once, or as soon as the client takes more; nothing if it is not connected."""
        if self.connection is not None:
            self.connection.sender.send(packets)
