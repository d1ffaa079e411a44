"""Committed messages on their way to the sessions that get them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping

from penstock.broker.feed.stored import StoredBatch
from penstock.broker.sessions.messages import MessageLog
from penstock.broker.sessions.session import Session
from penstock.kernels import session_rows as kernel
from penstock.kernels.session_entries import WORDS

COPIED = 2
"""producer id of a batch of records that were copied forward"""


def follow(
    messages: MessageLog,
    sessions: Mapping[int, Session],
    wake: Callable[[Session], None],
    count: Callable[[int, int], None],
) -> None:
    """Live: messages that are committed reach their sessions, which are woken. Counted are records, and the bytes
    of memory that they take."""

    def take(stored: StoredBatch) -> None:
        told = apply(messages, stored, sessions)
        count(len(stored), 8 * WORDS * len(told))
        for session in told:
            session.drop_excess()
            wake(session)

    messages.followed.follow(take)


def apply(
    messages: MessageLog,
    stored: StoredBatch,
    sessions: Mapping[int, Session],
    known_until: Mapping[int, int] | None = None,
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
    messages.living.add(wanted, 1)
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
