"""What clients did wrong and what there was no memory for: counted, and said in the log once a minute."""

from __future__ import annotations

import logging
from collections import Counter

from penstock.broker.auth.limits import peer_key
from penstock.codecs.amqp091.errors import AmqpError
from penstock.log.upkeep.faults import Telling

logger = logging.getLogger("penstock.amqp")


class Reports:
    """Of one gateway."""

    def __init__(self) -> None:
        self.telling = Telling(logger)
        self.failures: Counter[str] = Counter()
        """channels and connections that ended because the client broke the protocol, or asked for what it cannot have,
        by the name of the reply"""
        self.refused: Counter[str] = Counter()
        """messages that were not taken"""
        self.throttled: Counter[str] = Counter()
        """times that a client had to wait, or was refused, for a limit of that name"""

    def failed(self, client: str, peer: str, error: AmqpError) -> None:
        self.failures[error.fault.reply.name.lower().replace("_", "-")] += 1
        what = "connection" if error.is_hard else "channel"
        text = "%s closed peer=%s client=%s reason=%s"
        self.telling.warn(f"{what} {peer_key(peer)}", text, what, peer, client, error.reply_text)

    def turned_away(self, peer: str, reason: str) -> None:
        """By a layer in front of the protocol."""
        self.telling.warn(f"away {peer_key(peer)}", "connection closed peer=%s detail=%s", peer, reason)

    def memory_spent(self, client: str, waiting_bytes: int, limit_bytes: int) -> None:
        self.throttled["memory"] += 1
        text = "memory for connections is spent, those that take nothing are cut off client=%s waiting=%d budget=%d"
        self.telling.warn("memory", text, client, waiting_bytes, limit_bytes)
