"""What clients did wrong: all of it is counted, and said once for each of them and minute."""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.auth.limits import peer_key
from penstock.codecs.mqtt.reasons import ReasonCode

_AGAIN_S = 60.0
# Also the most lines a minute, whatever addresses and names are made up.
_MOST_NAMES = 10_000
_MOST_CHARACTERS = 64


class Recently:
    """Names that came up in the last minute, as many as are remembered; beyond that every name passes for one."""

    def __init__(self, time_s: Callable[[], float]) -> None:
        self._time_s = time_s
        self._since: dict[str, float] = {}
        """the oldest first"""

    def __len__(self) -> int:
        return len(self._since)

    def is_new(self, name: str) -> bool:
        """And from now on it is not, for a minute."""
        now = self._time_s()
        while self._since and now - next(iter(self._since.values())) >= _AGAIN_S:
            del self._since[next(iter(self._since))]
        name = name[:_MOST_CHARACTERS]
        if name in self._since or len(self._since) >= _MOST_NAMES:
            return False
        self._since[name] = now
        return True


class Complaints:
    """Of the broken protocol, by the peer's address."""

    def __init__(self, time_s: Callable[[], float]) -> None:
        self._peers = Recently(time_s)
        self.counts: dict[ReasonCode, int] = {}

    def is_due(self, peer: str, reason: ReasonCode) -> bool:
        """Count it; whether it is to be said."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        return self._peers.is_new(peer_key(peer))
