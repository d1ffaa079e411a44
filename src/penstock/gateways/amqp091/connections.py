"""All connections of a gateway: those that are there, and what those that are gone have counted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count
from time import monotonic

from penstock.broker.auth.limits import RateLimits
from penstock.broker.webhooks.events import Event
from penstock.broker.webhooks.webhooks import Webhooks
from penstock.gateways.amqp091.columns import ConnectionColumns
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.options import CurrentOptions
from penstock.gateways.amqp091.reports import Reports
from penstock.gateways.wire.budget import Budget
from penstock.gateways.wire.listener import ListenerFacts
from penstock.gateways.wire.outbox import Flusher, Outbox
from penstock.gateways.wire.slot import SlotTransport

logger = logging.getLogger("penstock.amqp")

PROTOCOL = "amqp-0.9.1"


class Connections:
    """Used from the loop. The budget is of what clients have not taken."""

    def __init__(
        self,
        columns: ConnectionColumns,
        options: CurrentOptions,
        limits: RateLimits,
        flusher: Flusher,
        budget_bytes: int,
        reports: Reports,
        webhooks: Webhooks,
    ) -> None:
        self._columns, self._options, self._limits, self._flusher = columns, options, limits, flusher
        self.budget = Budget(budget_bytes, self._make_room)
        self._reports, self._webhooks = reports, webhooks
        self.by_slot: dict[int, Connection] = {}
        self.gone: Callable[[Connection], None] = lambda connection: None
        """told of each that was let in"""
        self.is_closing = False
        """no new clients"""
        self.accepted = self.received = self.sent = 0
        """and messages that those who are gone published and were handed"""
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self.by_slot)

    def __iter__(self) -> Iterator[Connection]:
        """Those that there are now."""
        return iter(list(self.by_slot.values()))

    def open(self, transport: SlotTransport, facts: ListenerFacts) -> Connection:
        outbox = Outbox(transport, self._flusher, self._options.now.max_outbound_bytes, self.budget)
        rates = self._limits.client(facts.is_loopback)
        shared = self._columns, self._options, self._reports
        made = Connection(next(self._numbers), transport, facts, outbox, rates, *shared)
        self.by_slot[transport.slot] = made
        self.accepted += 1
        return made

    def opened(self, connection: Connection) -> None:
        """It was let in."""
        logger.debug("client connected client=%s peer=%s", connection.name, connection.peer)
        if self._webhooks.wants(Event.CONNECTED):
            self._webhooks.tell(Event.CONNECTED, _facts(connection))

    def lost(self, slot: int) -> None:
        """Its transport is closed."""
        connection = self.by_slot.pop(slot)
        self.received += connection.received
        self.sent += connection.sent
        connection.lost()
        if connection.is_known:
            self.gone(connection)
            if self._webhooks.wants(Event.DISCONNECTED):
                facts = {**_facts(connection), "connected_s": round(monotonic() - connection.opened_s, 3)}
                self._webhooks.tell(Event.DISCONNECTED, facts)

    def _make_room(self) -> None:
        """More waits for peers than all of them may leave lying: whoever leaves the most is cut off."""
        worst = max(self.by_slot.values(), key=lambda each: each.outbox.counted_bytes, default=None)
        if worst is None or not worst.outbox.counted_bytes:
            return
        self._reports.memory_spent(worst.name, worst.outbox.counted_bytes, self.budget.limit_bytes)
        worst.sacrifice()


def _facts(connection: Connection) -> dict[str, object]:
    """What a webhook is told of a client."""
    return {
        "client_id": connection.name,
        "namespace": connection.namespace,
        "user": connection.user,
        "protocol": PROTOCOL,
        "listener": connection.facts.name,
        "peer": connection.peer,
    }
