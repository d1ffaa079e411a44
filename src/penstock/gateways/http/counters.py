"""What the gateway counted since it was made, as metrics want it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class HttpCounters:
    """`metrics.sources.ProtocolCounters`. Used from the loop."""

    def __init__(self, streams: Callable[[], int]) -> None:
        """`streams` tells how many event streams and WebSockets are open."""
        self._streams = streams
        self.accepted = 0
        """connections"""
        self.connections = 0
        """there are now"""
        self.received = self.sent = self.dropped = 0
        self.received_bytes = self.sent_bytes = 0
        self.refused: Counter[str] = Counter()
        """requests, by the code of their problem"""
        self.throttled: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        """connections that sent what is no request, or not in time"""
        self.failures = 0
        """requests that ended in a mistake of ours"""

    @property
    def subscriptions(self) -> int:
        return self._streams()
