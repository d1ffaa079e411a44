"""One of the logs that sessions share: a message is stored in it once, with the list of those who get it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.broker.feed.stored import StoredBatch, StoredCache
from penstock.broker.sessions.followed import FollowedLog
from penstock.broker.sessions.wanted import Living
from penstock.kernels import session_rows as kernel
from penstock.kernels.session_entries import WORDS
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

    def __init__(self, shard: Shard, log: Log, number: int, cache: StoredCache, totals: Totals) -> None:
        self.log, self.number, self.totals, self.timeline = log, number, totals, shard.timeline
        self.living = Living()
        self.followed = FollowedLog(shard, log, cache)

    def follow(
        self,
        sessions: Mapping[int, Session],
        wake: Callable[[Session], None],
        count: Callable[[int, int], None],
    ) -> None:
        """Live: messages that are committed reach their sessions, which are woken. Counted are records, and the bytes
        of memory that they take."""

        def apply(stored: StoredBatch) -> None:
            told = self.apply(stored, sessions)
            count(len(stored), 8 * WORDS * len(told))
            for session in told:
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
        wanted = array("q")
        for number, entries, size in grouped(stored):
            session = sessions.get(number)
            if session is None or (known_until is not None and known_until.get(number, 0) >= stored.end):
                continue
            if is_copy and known_until is not None:
                session.queue.adopt(entries, known_until.get(number, 0))
            elif is_copy:
                session.queue.move(entries)
            else:
                session.queue.extend(entries, size)
                wanted += entries[1::WORDS]
                told.append(session)
        self.living.add(wanted, 1)
        return told


def grouped(stored: StoredBatch) -> Iterator[tuple[int, array[int], int]]:
    """Numbers of the sessions that get messages of a batch, with the entries of each and their bytes."""
    batch = stored.batch
    count = kernel.count_targets(batch.body, batch.layout, len(batch))
    sessions, entries = array("i", bytes(4 * count)), array("q", bytes(24 * count))
    kernel.read_targets(batch.body, batch.layout, len(batch), stored.offsets, sessions, entries)
    order, spare = array("i", bytes(4 * count)), array("i", bytes(4 * count))
    kernel.sort_by_session(sessions, order, spare)
    by_session, groups = array("q", bytes(24 * count)), array("q", bytes(24 * count))
    found = kernel.gather(sessions, entries, order, by_session, groups)
    for group in range(0, 3 * found, 3):
        first = groups[group + 1]
        stop = groups[group + 4] if group + 3 < 3 * found else count
        yield groups[group], by_session[3 * first : 3 * stop], groups[group + 2]
