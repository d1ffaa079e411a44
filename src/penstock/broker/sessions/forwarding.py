"""Message logs let go of what nobody wants: whole segments at the front. The few messages in them that somebody still
wants are copied to the end first."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from penstock.broker.feed.stored import StoredBatch
from penstock.broker.sessions.arrivals import COPIED, grouped
from penstock.broker.sessions.messages import MessageLog
from penstock.broker.sessions.session import Session
from penstock.broker.sessions.state_writer import StateWriter
from penstock.broker.sessions.targets import Pairs, parts
from penstock.core.types import Purpose
from penstock.kernels import session_entries as kernel
from penstock.log.journal.late import Late, Part
from penstock.log.records import SegmentInfo
from penstock.log.shard import Shard

# A segment is copied when less than a quarter of it is alive, or of all sealed ones together: then files hold at most
# four times what somebody wants, however it is spread.
_PARTS = 4
# What one commit copies: little enough that publishes do not feel it.
_COPY_BYTES = 64 << 10


class _NothingToCopy(Exception):
    """Everything was settled meanwhile."""


async def clear(shard: Shard, messages: MessageLog, sessions: Mapping[int, Session], writer: StateWriter) -> None:
    """Let go of segments until those that are left are worth their room."""
    await _trim(shard, messages, writer)
    while (segment := _sparse(shard, messages)) is not None:
        await _copy(shard, messages, sessions, segment.end)
        before = messages.log.start
        await _trim(shard, messages, writer)
        if messages.log.start == before:
            return  # somebody is faster than the copying: another time


async def _trim(shard: Shard, messages: MessageLog, writer: StateWriter) -> None:
    """What is let go of rests on acknowledgements: they are committed first."""
    log = messages.log
    start = messages.living.first(log.start, messages.followed.applied)
    if any(segment.end <= start for segment in _sealed(shard, messages)):
        await writer.flush()
        await shard.trim(log, start)
        messages.living.trim(start)


def _sparse(shard: Shard, messages: MessageLog) -> SegmentInfo | None:
    """The first segment, if it is to be copied."""
    sealed = _sealed(shard, messages)
    if not sealed:
        return None
    first, start = sealed[0], messages.log.start
    living = messages.living.count(start, first.end)
    if _PARTS * living < first.records:
        return first
    living = messages.living.count(start, sealed[-1].end)
    return first if _PARTS * living < sum(segment.records for segment in sealed) else None


def _sealed(shard: Shard, messages: MessageLog) -> list[SegmentInfo]:
    view = shard.reader._views.get(messages.log.number)
    start = messages.log.start
    return [] if view is None else [segment.info for segment in view.sealed if segment.info.end > start]


async def _copy(shard: Shard, messages: MessageLog, sessions: Mapping[int, Session], end: int) -> None:
    offset = messages.living.first(messages.log.start, end)
    while offset < end:
        read = [StoredBatch.of(data) for data in await shard.read(messages.log, offset, _COPY_BYTES)]
        if not read:
            return
        for some in _pieces(read, end):
            try:
                await shard.commit((), Purpose.SETTLE, partial(_copies, messages, sessions, some))
            except _NothingToCopy:
                continue
        offset = messages.living.first(read[-1].end, end)


def _pieces(read: list[StoredBatch], end: int) -> Iterator[list[tuple[StoredBatch, range]]]:
    """Batches, and rows of large ones, that one frame takes well."""
    some: list[tuple[StoredBatch, range]] = []
    for stored in read:
        if stored.first >= end:
            break
        size, count = len(stored.batch.body), len(stored)
        step = count if size <= _COPY_BYTES else max(1, count * _COPY_BYTES // size)
        for first in range(0, count, step):
            some.append((stored, range(first, min(first + step, count))))
            if step < count:
                yield some
                some = []
    if some:
        yield some


def _copies(
    messages: MessageLog, sessions: Mapping[int, Session], some: list[tuple[StoredBatch, range]], room: int
) -> Late:
    """At the moment at which they are staged: what nobody has settled until then."""
    found: list[Part] = []
    expired: list[tuple[Session, list[int]]] = []
    for stored, rows in some:
        pairs = _wanted(messages, sessions, stored, rows, expired)
        if pairs.rows:
            columns = stored.batch.columns()
            later = messages.timeline.later(stored.batch.header.base_timestamp)
            if later and columns.expiry is not None:
                columns.expiry = array("q", [time + later if time else 0 for time in columns.expiry])
            for log, mine in parts(columns, {messages: pairs}):
                found.append((log, replace(mine, producer_id=COPIED)))

    def apply() -> None:
        for session, gone in expired:
            session.settle(gone)
            messages.totals.expired += len(gone)

    if not found:
        apply()
        raise _NothingToCopy
    return Late(found, apply)


def _wanted(
    messages: MessageLog,
    sessions: Mapping[int, Session],
    stored: StoredBatch,
    rows: range,
    gone_of: list[tuple[Session, list[int]]],
) -> Pairs:
    """Who still wants which of the rows, where they lie now. Of what expired, whoever is away does not: that is added
    to `gone_of`."""
    pairs, ids = Pairs(), array("q", bytes(8 * len(stored)))
    expired = stored.expired(messages.timeline.now_at(stored.batch.header.base_timestamp), 0) or bytearray(len(stored))
    for number, entries, _ in grouped(stored):
        session = sessions.get(number)
        if session is None:
            continue
        gone: list[int] = []
        for at in range(0, len(entries), kernel.WORDS):
            message_id, offset, word = entries[at : at + kernel.WORDS]
            row = stored.row_from(offset)
            if row not in rows or session.queue.offset_of(message_id) != offset:
                continue
            if expired[row] and not session.is_connected and not session.queue.is_in_flight(message_id):
                gone.append(message_id)
                continue
            ids[row] = message_id
            pairs.add(number, array("i", [row]), word & 0x3F)
        if gone:
            gone_of.append((session, gone))
    pairs.ids = ids
    return pairs
