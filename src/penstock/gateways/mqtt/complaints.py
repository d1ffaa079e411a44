"""What peers did wrong: all of it is counted, and said once for each peer and minute."""

from __future__ import annotations

from collections.abc import Callable

from penstock.codecs.mqtt.reasons import ReasonCode

_AGAIN_S = 60.0
_MAX_PEERS = 10_000


class Complaints:
    def __init__(self, time_s: Callable[[], float]) -> None:
        self._time_s = time_s
        self._said: dict[str, float] = {}
        self.counts: dict[ReasonCode, int] = {}

    def is_due(self, peer: str, reason: ReasonCode) -> bool:
        """Count it; whether it is to be said."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        now = self._time_s()
        if now - self._said.get(peer, -_AGAIN_S) < _AGAIN_S:
            return False
        if len(self._said) >= _MAX_PEERS:
            self._said = {name: time for name, time in self._said.items() if now - time < _AGAIN_S}
            if len(self._said) >= _MAX_PEERS:
                self._said.clear()
        self._said[peer] = now
        return True
