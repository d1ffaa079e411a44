"""One of the logs that sessions share: a message is stored in it once, with the list of those who get it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.broker.sessions.followed import FollowedLog
from penstock.broker.sessions.living import Living
from penstock.broker.stored import StoredBatch, StoredCache
from penstock.kernels import session_rows as kernel
from penstock.log.partition import Log
from penstock.log.shard import Shard

if TYPE_CHECKING:
    from penstock.broker.sessions.session import Session

COPIED = 2
"""producer id of a batch of records that were copied forward"""


@dataclass(slots=True)
class Totals:
    """Over all sessions."""

    queued_messages: int = 0
    queued_bytes: int = 0
    dropped: int = 0
    """had no room"""
    expired: int = 0
    lost: int = 0
    """could not be found in the log"""


class MessageLog:
    """Used from the loop. A record that nobody wants any more is dead; it goes with its segment."""

    def __init__(
        self, shard: Shard, log: Log, number: int, cache: StoredCache, totals: Totals, now: Callable[[], int]
    ) -> None:
        self.log, self.number, self.totals, self.now = log, number, totals, now
        self.living = Living()
        self.followed = FollowedLog(shard, log, cache)

    def follow(self, sessions: Mapping[int, Session], wake: Callable[[Session], None]) -> None:
        """Live: messages that are committed reach their sessions, which are woken."""

        def apply(stored: StoredBatch) -> None:
            for session in self.apply(stored, sessions):
                session.drop_excess()
                wake(session)

        self.followed.follow(apply)

    def apply(
        self, stored: StoredBatch, sessions: Mapping[int, Session], known_until: Mapping[int, int] | None = None
    ) -> list[Session]:
        """Give a batch to its sessions; those that got something new. `known_until`: up to where a session knows the
        log already."""
        is_copy = stored.batch.header.producer_id == COPIED
        told: list[Session] = []
        for number, entries in grouped(stored):
            session = sessions.get(number)
            if session is None or (known_until is not None and known_until.get(number, 0) >= stored.end):
                continue
            if is_copy and known_until is not None:
                session.queue.adopt(entries, known_until.get(number, 0))
            elif is_copy:
                session.queue.move(entries)
            else:
                session.queue.extend(entries)
                told.append(session)
        return told


def grouped(stored: StoredBatch) -> Iterator[tuple[int, array[int]]]:
    """Numbers of the sessions that get messages of a batch, with the entries of each."""
    batch = stored.batch
    count = kernel.count_targets(batch.body, batch.layout, len(batch))
    sessions, entries = array("i", bytes(4 * count)), array("q", bytes(24 * count))
    kernel.read_targets(batch.body, batch.layout, len(batch), stored.offsets, sessions, entries)
    order, spare = array("i", bytes(4 * count)), array("i", bytes(4 * count))
    kernel.sort_by_session(sessions, order, spare)
    by_session, groups = array("q", bytes(24 * count)), array("q", bytes(16 * count))
    found = kernel.gather(sessions, entries, order, by_session, groups)
    for group in range(found):
        first = groups[2 * group + 1]
        stop = groups[2 * group + 3] if group + 1 < found else count
        yield groups[2 * group], by_session[3 * first : 3 * stop]
