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
    """A session that was connected again, or is gone, is passed over when its time comes."""

    def __init__(self, sessions: Mapping[int, Session]) -> None:
        self._sessions = sessions
        self._heap: list[tuple[int, int]] = []

    @property
    def next_ms(self) -> int | None:
        """When `due` is worth asking."""
        return self._heap[0][0] if self._heap else None

    def watch(self, session: Session) -> None:
        """It was disconnected."""
        for time_ms in {session.will_due_ms, session.ends_ms} - {None}:
            assert time_ms is not None
            heapq.heappush(self._heap, (time_ms, session.number))

    def due(self, now: int) -> Due:
        numbers: dict[int, None] = {}
        while self._heap and self._heap[0][0] <= now:
            numbers[heapq.heappop(self._heap)[1]] = None
        found = Due()
        for number in numbers:
            if (session := self._sessions.get(number)) is not None:
                self._look_at(session, now, found)
        return found

    def _look_at(self, session: Session, now: int, found: Due) -> None:
        will_ms, ends_ms = session.will_due_ms, session.ends_ms
        if will_ms is not None and will_ms <= now:
            found.wills.append(session)
        if ends_ms is not None and ends_ms <= now:
            found.ended.append(session)
        if session in found.wills or session in found.ended:
            heapq.heappush(self._heap, (now + _AGAIN_MS, session.number))
