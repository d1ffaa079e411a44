"""What a gateway counted since it was made, as whoever exports it wants it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.gateways.amqp091.connections import PROTOCOL, Connections
from penstock.gateways.amqp091.reports import Reports
from penstock.gateways.wire.outbox import Flusher
from penstock.gateways.wire.reactor import Reactor

_CONNECTING = "amqp-connecting"


class AmqpCounters:
    """Used from the loop."""

    def __init__(self, connections: Connections, flusher: Flusher, reports: Reports, reactor: Reactor) -> None:
        self._connections, self._flusher, self._reports, self._reactor = connections, flusher, reports, reactor
        self.throttled = reports.throttled

    def connections(self) -> dict[str, int]:
        """Those that have not said who they are by the last name."""
        found = {PROTOCOL: 0, _CONNECTING: 0}
        for connection in self._connections:
            found[PROTOCOL if connection.is_open else _CONNECTING] += 1
        return found

    @property
    def connected(self) -> int:
        return len(self._connections)

    @property
    def accepted(self) -> int:
        return self._connections.accepted

    @property
    def received(self) -> int:
        """Messages that clients published."""
        return self._connections.received + sum([each.received for each in self._connections])

    @property
    def received_bytes(self) -> int:
        return self._reactor.counters().received_bytes

    @property
    def sent(self) -> int:
        """Messages that clients were handed."""
        return self._connections.sent + sum([each.sent for each in self._connections])

    @property
    def sent_bytes(self) -> int:
        return self._flusher.sent_bytes

    @property
    def dropped(self) -> int:
        """Nothing is: what clients do not take stays in its queue."""
        return 0

    @property
    def subscriptions(self) -> int:
        """Consumers."""
        return sum([len(channel.consumers) for each in self._connections for channel in each.channels.values()])

    @property
    def refused(self) -> Mapping[str, int]:
        """Messages that their publishers were told are not taken."""
        return self._reports.refused

    @property
    def errors(self) -> Mapping[str, int]:
        """Channels and connections that ended because of what the client did, or could not be served."""
        return self._reports.failures
