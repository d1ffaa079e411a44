"""What clients did wrong, what they were refused and what there was no memory for: counted, and said in the log once a
minute."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from penstock.codecs.mqtt.errors import PacketError
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import PenstockError
from penstock.gateways.mqtt.admin.complaints import Complaints, Recently
from penstock.gateways.mqtt.inbound.refusals import OF_EVERYBODY
from penstock.gateways.mqtt.inbound.topic_aliases import OutOfNames
from penstock.gateways.wire.budget import Budget
from penstock.log.upkeep.faults import Telling

logger = logging.getLogger("penstock.mqtt")


class Reports:
    """Of one gateway; `names` is the budget for what clients have the server keep."""

    def __init__(self, time_s: Callable[[], float], names: Budget) -> None:
        self._names = names
        self._complaints, self._refusals = Complaints(time_s), Recently(time_s)
        self.telling = Telling(logger)
        self.refused_rows: Counter[ReasonCode] = Counter()
        self.throttled: Counter[str] = Counter()
        """times that a client had to wait, or was refused, for a limit of that name"""

    @property
    def failures(self) -> dict[ReasonCode, int]:
        """Connections that ended because the client broke the protocol, or could not be served."""
        return self._complaints.counts

    def failed(self, client: str, peer: str, error: PacketError) -> None:
        """A peer that breaks the protocol is heard of once a minute."""
        if isinstance(error, OutOfNames):
            self.names_spent(client)
        if self._complaints.is_due(peer, error.reason):
            text = "connection closed peer=%s client=%s reason=%s detail=%s"
            logger.warning(text, peer, client, error.reason, error.detail)

    def turned_away(self, peer: str, reason: str) -> None:
        """By a layer in front of the protocol."""
        if self._complaints.is_due(peer, ReasonCode.MALFORMED_PACKET):
            logger.warning("connection closed peer=%s detail=%s", peer, reason)

    def refused(self, client: str, what: str, error: Exception, level: int = logging.INFO) -> None:
        """The client is told each time, as far as its version can; the log once a minute for each client and kind of
        request, and for all clients together where storage refuses everybody."""
        if isinstance(error, PenstockError) and error.code in OF_EVERYBODY:
            self.telling.warn(f"{what} {error.code.value}", f"{what} refused client=%s error=%s", client, error)
        elif self._refusals.is_new(f"{what} {client}"):
            logger.log(level, "%s refused client=%s error=%s", what, client, error)

    def memory_spent(self, client: str, waiting_bytes: int, limit_bytes: int) -> None:
        self.throttled["memory"] += 1
        text = "memory for connections is spent, those that take nothing are cut off client=%s waiting=%d budget=%d"
        self.telling.warn("memory", text, client, waiting_bytes, limit_bytes)

    def names_spent(self, client: str) -> None:
        self.throttled["memory"] += 1
        text = "memory for topic filters, aliases and wills is spent client=%s used=%d budget=%d"
        self.telling.warn("names", text, client, self._names.used_bytes, self._names.limit_bytes)

    def lost_will(self, client_id: str, reason: str) -> None:
        """Once a minute: with a full disk every client that goes has one."""
        self.telling.warn("will", "will not published client=%s error=%s", client_id, reason)
