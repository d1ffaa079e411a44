"""How often the loop looks for what came. Mostly at once; while many peers send a little each, once in a while, so that
a receive brings more: the work is by receives, answers and syncs, hardly by messages."""

from __future__ import annotations

_WINDOW_S = 5e-3
"""for so long is counted before it is decided how it goes on"""
_PERIOD_S, _LONGEST_PERIOD_S, _STEP_S = 1e-3, 3e-3, 0.25e-3
"""between two looks, where they are not made at once; longer by steps where the work does not fit"""
# Of the time; a loop that works for more falls behind at the next hitch, and one that works for less has time to look.
_BUSY_SHARE, _IDLE_SHARE = 0.75, 0.4
# Few peers are not gathered from: one that waits for its answer would wait for nothing else.
_MANY_PEERS = 8
# Below that a processor has time for each receive on its own: one takes about 25 µs with all that follows from it.
_MANY_RECEIVES_A_SECOND = 8_000
# More messages a receive than that gain nothing from others beside them. Far above what a pause brings: a loop
# that fell behind finds more in each receive, and would fall further behind without its pauses.
_ENOUGH_MESSAGES = 32
# Peers who wait for their answers before they go on send no more in a longer time: then it is not tried for a while.
_WORTH_IT = 1.5
_NOT_AGAIN_S = 0.25


class Pace:
    """Of one loop. What receives tells heard(); what polls asks wait_s(), and says for how long it waited() and when it
    looks()."""

    __slots__ = (
        "_began_s",
        "_is_slow",
        "_looked_s",
        "_messages",
        "_peers",
        "_period_s",
        "_receives",
        "_rests_until_s",
        "_waited_s",
    )

    def __init__(self) -> None:
        self._began_s = self._looked_s = self._rests_until_s = 0.0
        self._receives = self._messages = self._peers = 0
        self._is_slow, self._period_s, self._waited_s = False, _PERIOD_S, 0.0

    def heard(self, before_s: float, messages: int) -> None:
        """A receive brought so many messages of a peer that was last heard at `before_s`."""
        self._receives += 1
        self._messages += messages
        if before_s < self._began_s:
            self._peers += 1

    def wait_s(self, now_s: float) -> float:
        """How long it is better not to look."""
        if now_s - self._began_s >= _WINDOW_S:
            self._decide(now_s)
        return self._looked_s + self._period_s - now_s if self._is_slow else 0.0

    def waited(self, seconds: float) -> None:
        self._waited_s += seconds

    def looks(self, now_s: float) -> None:
        self._looked_s = now_s

    def _decide(self, now_s: float) -> None:
        receives, messages, took_s = self._receives, self._messages, now_s - self._began_s
        if self._is_slow and messages < _WORTH_IT * receives:
            self._rests_until_s = now_s + _NOT_AGAIN_S
        # Gathered, they are fewer receives, each of which brings more.
        many = messages if self._is_slow else receives
        is_crowded = self._peers >= _MANY_PEERS and many >= _MANY_RECEIVES_A_SECOND * took_s
        is_little = messages < _ENOUGH_MESSAGES * receives
        self._is_slow = is_crowded and is_little and now_s >= self._rests_until_s
        self._period_s = self._fitting_period_s(self._waited_s / took_s) if self._is_slow else _PERIOD_S
        self._began_s, self._waited_s = now_s, 0.0
        self._receives = self._messages = self._peers = 0

    def _fitting_period_s(self, idle_share: float) -> float:
        if idle_share < 1 - _BUSY_SHARE:
            return min(self._period_s + _STEP_S, _LONGEST_PERIOD_S)
        if idle_share > 1 - _IDLE_SHARE:
            return max(self._period_s - _STEP_S, _PERIOD_S)
        return self._period_s
