"""When wills are due and sessions end."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.broker.sessions.session import Session

# What was due is named again after this time if it is still there: publishing a will may have been refused.
_AGAIN_MS = 5_000


@dataclass(frozen=True, slots=True)
class Due:
    """Publish the wills first, with `Sessions.will_part` in their frames; then end the sessions."""

    wills: list[Session] = field(default_factory=list)
    ended: list[Session] = field(default_factory=list)


class Deadlines:
    """A session is looked at when the earliest time that it was watched for has come; however often it connects and
    goes, that is one entry."""

    def __init__(self, sessions: Mapping[int, Session]) -> None:
        self._sessions = sessions
        self._heap: list[tuple[int, int]] = []
        self._watched: dict[int, int] = {}
        """when each session is looked at next, by number"""

    def watch(self, session: Session) -> None:
        """It was disconnected."""
        times = [time_ms for time_ms in (session.will_due_ms, session.ends_ms) if time_ms is not None]
        if times:
            self._look_at(session.number, min(times))

    def due(self, now: int) -> Due:
        found = Due()
        while self._heap and self._heap[0][0] <= now:
            time_ms, number = heapq.heappop(self._heap)
            if self._watched.get(number) != time_ms:
                continue
            del self._watched[number]
            if (session := self._sessions.get(number)) is not None and not self._add(session, now, found):
                self.watch(session)
        for session in {*found.wills, *found.ended}:
            self._look_at(session.number, now + _AGAIN_MS)
        return found

    def _look_at(self, number: int, time_ms: int) -> None:
        if number not in self._watched or time_ms < self._watched[number]:
            self._watched[number] = time_ms
            heapq.heappush(self._heap, (time_ms, number))

    def _add(self, session: Session, now: int, found: Due) -> bool:
        """Whether something of it is due."""
        will_ms, ends_ms = session.will_due_ms, session.ends_ms
        has_will, has_ended = will_ms is not None and will_ms <= now, ends_ms is not None and ends_ms <= now
        found.wills.extend([session] if has_will else [])
        found.ended.extend([session] if has_ended else [])
        return has_will or has_ended
