"""Publishing by topic to everybody: what a gateway asks of the one that keeps subscriptions."""

from __future__ import annotations

from typing import Protocol

from penstock.broker.publisher import Publisher
from penstock.log.columns import Columns


class TopicPublisher(Protocol):
    """Used from the loop."""

    async def publish(
        self, columns: Columns, *, qos: int, retain: bool, publisher: Publisher, namespace: str = "default"
    ) -> int:
        """By the topics of the rows, which must not change until it returns: to subscribers of every protocol, to
        sessions that are away, to bound queues, and with `retain` to those who come later; one frame. Returns when that
        is committed: how many rows reached a subscriber or a queue. A key places a message, its headers do not.

        InvalidArgument for what is no topic to publish to; what a queue refuses is raised, and nobody got it then. May
        they do it? is the caller's question."""
        ...
