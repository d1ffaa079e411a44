"""All connections of a gateway: those that are there, and what those that are gone have counted."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from time import monotonic

from penstock.broker.auth.limits import RateLimits
from penstock.broker.webhooks.events import Event
from penstock.broker.webhooks.webhooks import Webhooks
from penstock.codecs.mqtt.kinds import Version
from penstock.gateways.mqtt.admin.reports import Reports
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.inbound.client_columns import ClientColumns
from penstock.gateways.mqtt.options import CurrentOptions
from penstock.gateways.wire.budget import Budget
from penstock.gateways.wire.listener import ListenerFacts
from penstock.gateways.wire.outbox import Flusher, Outbox
from penstock.gateways.wire.slot import SlotTransport

logger = logging.getLogger("penstock.mqtt")

PROTOCOLS = {Version.V5: "mqtt-5", Version.V3_1_1: "mqtt-3.1.1"}


class Connections:
    """Used from the loop. `budget` is of what clients have not taken, `names` of what they have the server keep."""

    def __init__(
        self,
        columns: ClientColumns,
        options: CurrentOptions,
        limits: RateLimits,
        flusher: Flusher,
        budget_bytes: int,
        names: Budget,
        reports: Reports,
        webhooks: Webhooks,
    ) -> None:
        self._columns, self._options, self._limits, self._flusher = columns, options, limits, flusher
        self.budget, self.names = Budget(budget_bytes, self._make_room), names
        self._reports, self._webhooks = reports, webhooks
        self.by_slot: dict[int, Connection] = {}
        self._namespaces: dict[str, int] = {}
        self.is_closing = False
        """no new clients"""
        self.accepted = 0
        self._dropped = self._sent = 0
        """by connections that are closed"""

    def __len__(self) -> int:
        return len(self.by_slot)

    def __iter__(self) -> Iterator[Connection]:
        """Those that there are now."""
        return iter(list(self.by_slot.values()))

    def open(self, transport: SlotTransport, facts: ListenerFacts) -> Connection:
        outbox = Outbox(transport, self._flusher, self._options.now.max_outbound_bytes, self.budget)
        rates = self._limits.client(facts.is_loopback)
        shared = self._columns, self.names, self._options, self._reports
        made = self.by_slot[transport.slot] = Connection(transport, facts, outbox, rates, *shared)
        self.accepted += 1
        return made

    def let_in(self, connection: Connection) -> None:
        """From now on its packets are scanned."""
        slot, columns = connection.transport.slot, self._columns
        assert connection.version is not None
        columns.versions[slot], columns.alias_maxima[slot] = connection.version, connection.alias_maximum
        columns.maxima[slot], columns.places[slot] = connection.incoming.receive_maximum, connection.publisher.place
        namespace = connection.session.namespace
        columns.namespaces[slot] = self._namespaces.setdefault(namespace, len(self._namespaces))
        columns.is_limited[slot] = connection.rates.messages.is_limited

    def logged_in(self, connection: Connection) -> None:
        logger.debug("client connected client=%s peer=%s", connection.name, connection.peer)
        if self._webhooks.wants(Event.CONNECTED):
            self._webhooks.tell(Event.CONNECTED, _facts(connection))

    def lost(self, slot: int) -> Connection:
        """The one that is gone."""
        connection = self.by_slot.pop(slot)
        self._dropped += connection.dropped
        self._sent += connection.sent
        if connection.is_known and self._webhooks.wants(Event.DISCONNECTED):
            facts = {**_facts(connection), "connected_s": round(monotonic() - connection.opened_s, 3)}
            self._webhooks.tell(Event.DISCONNECTED, facts)
        connection.lost()
        return connection

    @property
    def dropped(self) -> int:
        """Messages that they had no room for, beside those of stored sessions."""
        return self._dropped + sum([connection.dropped for connection in self.by_slot.values()])

    @property
    def sent(self) -> int:
        """Messages that went out to clients."""
        return self._sent + sum([connection.sent for connection in self.by_slot.values()])

    def _make_room(self) -> None:
        """More waits for peers than all of them may leave lying: whoever leaves the most is cut off."""
        worst = max(self.by_slot.values(), key=lambda each: each.outbox.counted_bytes, default=None)
        if worst is None or not worst.outbox.counted_bytes:
            return
        self._reports.memory_spent(worst.name, worst.outbox.counted_bytes, self.budget.limit_bytes)
        worst.sacrifice()


def _facts(connection: Connection) -> dict[str, object]:
    """What a webhook is told of a client."""
    session = connection.session
    return {
        "client_id": session.client_id,
        "namespace": session.namespace,
        "user": connection.identity.name,
        "protocol": PROTOCOLS[session.version],
        "listener": connection.facts.name,
        "peer": connection.peer,
    }
