"""What the gateway counted since it was made, as whoever exports it wants it: by words instead of codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.reasons import ReasonCode

if TYPE_CHECKING:
    from penstock.gateways.mqtt.gateway import MqttGateway

_PROTOCOLS = {Version.V3_1_1: "mqtt-3.1.1", Version.V5: "mqtt-5", None: "mqtt-connecting"}


class MqttCounters:
    """Used from the loop."""

    def __init__(self, gateway: MqttGateway) -> None:
        self._gateway = gateway
        self.refused_rows: Counter[ReasonCode] = Counter()
        self.throttled: Counter[str] = Counter()
        """times that a client had to wait, or was refused, for a limit of that name"""

    def connections(self) -> dict[str, int]:
        """By protocol; those that have not said who they are by the last name."""
        found = dict.fromkeys(_PROTOCOLS.values(), 0)
        for connection in self._gateway.connections:
            found[_PROTOCOLS[connection.version]] += 1
        return found

    @property
    def accepted(self) -> int:
        return self._gateway.accepted

    @property
    def received(self) -> int:
        """Messages that were taken."""
        return self._gateway.topics.received

    @property
    def received_bytes(self) -> int:
        return self._gateway.turns.received_bytes

    @property
    def sent(self) -> int:
        return self._gateway.sent

    @property
    def sent_bytes(self) -> int:
        return self._gateway.flusher.sent_bytes

    @property
    def dropped(self) -> int:
        """Messages that their receivers had no room for, stored sessions included."""
        return self._gateway.dropped

    @property
    def subscriptions(self) -> int:
        return self._gateway.subscription_count

    @property
    def refused(self) -> Mapping[str, int]:
        """Messages that their publishers were told are not taken."""
        return {_word(reason): count for reason, count in self.refused_rows.items()}

    @property
    def errors(self) -> Mapping[str, int]:
        """Connections that ended because the client broke the protocol, or could not be served."""
        return {_word(reason): count for reason, count in self._gateway.failures.items()}


def _word(reason: ReasonCode) -> str:
    return reason.name.lower().replace("_", "-")
