"""What a gateway counted since it was made, as whoever exports it wants it: by words instead of codes."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.broker.topics.topics import Topics
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.mqtt.admin.reports import Reports
from penstock.gateways.mqtt.connections import PROTOCOLS, Connections
from penstock.gateways.wire.outbox import Flusher
from penstock.gateways.wire.reactor import Reactor

_CONNECTING = "mqtt-connecting"


class MqttCounters:
    """Used from the loop."""

    def __init__(
        self,
        connections: Connections,
        topics: Topics,
        flusher: Flusher,
        reports: Reports,
        reactor: Reactor,
    ) -> None:
        self._connections, self._topics, self._flusher, self._reports = connections, topics, flusher, reports
        self._reactor = reactor
        self.throttled = reports.throttled

    def connections(self) -> dict[str, int]:
        """By protocol; those that have not said who they are by the last name."""
        found = dict.fromkeys([*PROTOCOLS.values(), _CONNECTING], 0)
        for connection in self._connections:
            found[_CONNECTING if connection.version is None else PROTOCOLS[connection.version]] += 1
        return found

    @property
    def connected(self) -> int:
        return len(self._connections)

    @property
    def accepted(self) -> int:
        return self._connections.accepted

    @property
    def received(self) -> int:
        """Messages that were taken."""
        return self._topics.received

    @property
    def received_bytes(self) -> int:
        return self._reactor.counters().received_bytes

    @property
    def sent(self) -> int:
        return self._connections.sent

    @property
    def sent_bytes(self) -> int:
        return self._flusher.sent_bytes

    @property
    def dropped(self) -> int:
        """Messages that their receivers had no room for, stored sessions included."""
        return self._connections.dropped + self._topics.sessions.totals.dropped

    @property
    def subscriptions(self) -> int:
        return sum([len(router) for router in self._topics.routers])

    @property
    def refused(self) -> Mapping[str, int]:
        """Messages that their publishers were told are not taken."""
        return {_word(reason): count for reason, count in self._reports.refused_rows.items()}

    @property
    def errors(self) -> Mapping[str, int]:
        """Connections that ended because the client broke the protocol, or could not be served."""
        return {_word(reason): count for reason, count in self._reports.failures.items()}


def _word(reason: ReasonCode) -> str:
    return reason.name.lower().replace("_", "-")
