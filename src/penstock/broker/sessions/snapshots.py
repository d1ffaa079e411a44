"""All sessions as they are, now and then, so that the state log need not be kept or replayed from the beginning.

A snapshot is written in pieces of many sessions while life goes on: each session says up to where in the state log and
in its message log it knows everything, and replay leaves out what it knows. Three are kept, as records of a log."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from itertools import islice

import msgspec

from penstock.broker.sessions.fold import Fold
from penstock.broker.sessions.followed import FollowedLog
from penstock.broker.sessions.messages import MessageLog
from penstock.broker.sessions.records import Subscription, Will
from penstock.broker.sessions.session import Outgoing, Session
from penstock.core.types import Purpose
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.offline.damage import Damage
from penstock.log.partition import Log
from penstock.log.shard import Shard

RECORDS, INTERVAL_MS, KEPT = 10_000, 5 * 60 * 1000, 3
# Dumping so many takes about a millisecond; a piece of them is committed before the next is made.
_SESSIONS_IN_TURN = 200
_PIECE_BYTES = 32 << 10


class Dump(msgspec.Struct, frozen=True, array_like=True):
    """A session. `state_end` and `messages_end`: what it knows of the two logs."""

    number: int
    client_id: str
    namespace: str
    owner: str
    log: int
    expiry_s: int
    is_connected: bool
    disconnected_ms: int
    will: Will | None
    subscriptions: dict[str, Subscription]
    held: list[int]
    outgoing: list[Outgoing]
    entries: bytes
    last_id: int
    dropped: int
    state_end: int
    messages_end: int
    sent_below: int = 0
    last_packet_id: int = 0


class More(msgspec.Struct, frozen=True, array_like=True):
    """Subscriptions of a session that has more of them than one piece takes well; behind its dump."""

    number: int
    subscriptions: dict[str, Subscription]


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """`state_start` and `messages_starts`: from where on logs are to be replayed; the same in all pieces of a
    snapshot."""

    state_start: int
    messages_starts: list[int]
    next_number: int
    sessions: list[Dump]
    more: list[More] = []


_HEAD = struct.Struct("<qIB")
"""the key of a piece: its `state_start`, its number, 1 on the last one"""
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Piece)


class Snapshots:
    """Used from the loop."""

    def __init__(self, shard: Shard, log: Log, state: FollowedLog, messages: list[MessageLog], fold: Fold) -> None:
        self._shard, self._log, self._state, self._messages, self._fold = shard, log, state, messages, fold
        self._records = self._bytes = self._snapshot_bytes = 0
        """since the last one"""
        self._last_ms, self.is_wanted = 0, False
        self._starts: list[tuple[int, int]] = []
        """of those kept, oldest first: where the first piece lies, and its `state_start`"""

    def count(self, records: int, size: int) -> None:
        """So much would have to be replayed."""
        self._records += records
        self._bytes += size

    def is_due(self, now: int) -> bool:
        """Enough records since the last one, or enough time, and more to replay than a snapshot would take."""
        if self.is_wanted:
            return True
        if not self._records or self._bytes <= self._snapshot_bytes:
            return False
        return self._records >= RECORDS or now - self._last_ms >= INTERVAL_MS

    async def write(self, now: int) -> None:
        """Make one, and let go of what three of them make superfluous."""
        self._records = self._bytes = size = 0
        self._last_ms, self.is_wanted = now, False
        starts = self._state.applied, [messages.followed.applied for messages in self._messages]
        first: int | None = None
        for number, (dumps, more, is_last) in enumerate(self._pieces()):
            data = _encoder.encode(Piece(*starts, self._fold.next_number, dumps, more))
            columns = Columns.of([data], keys=[_HEAD.pack(starts[0], number, is_last)])
            offset = await self._shard.append(self._log, columns, Purpose.SETTLE)
            first = offset if first is None else first
            size += len(data)
        assert first is not None
        self._snapshot_bytes = size
        self._starts = [*self._starts, (first, starts[0])][-KEPT:]
        if len(self._starts) == KEPT:
            await self._shard.trim(self._state.log, self._starts[0][1])
            await self._shard.trim(self._log, self._starts[0][0])

    def read(self) -> Iterator[Piece]:
        """Those of the newest whole one; nothing if there is none."""
        wholes = list(self._wholes())[-KEPT:]
        if not wholes:
            return
        self._starts = [(first, state_start) for first, _, state_start in wholes]
        stop = wholes[-1][1]
        for data in self._shard.reader.readable(self._log, self._starts[-1][0], _told_already):
            for row in Batch.parse(data):
                if row.offset >= stop:
                    return
                self._snapshot_bytes += len(row.value)
                yield _decoder.decode(row.value)

    def _wholes(self) -> Iterator[tuple[int, int, int]]:
        """First offset, end and `state_start` of each, oldest first."""
        first = expected = 0
        for data in self._shard.readable(self._log, self._log.start):
            batch = Batch.parse(data)
            for row, offset in enumerate(batch.offsets()):
                state_start, number, is_last = _HEAD.unpack(batch.key(row) or b"")
                first = offset if number == 0 else first
                expected = number + 1 if number in (0, expected) else -1
                if is_last and expected == number + 1:
                    yield first, offset + 1, state_start

    def _pieces(self) -> Iterator[tuple[list[Dump], list[More], bool]]:
        """Sessions that are there when their turn comes; the last piece is marked and may be empty. No session makes a
        piece so large that no frame takes it: one with long filters would keep all others from being written."""
        numbers = iter(list(self._fold.sessions))
        while some := list(islice(numbers, _SESSIONS_IN_TURN)):
            dumps: list[Dump] = []
            size = 0
            for number in some:
                if (session := self._fold.sessions.get(number)) is None:
                    continue
                parts = _parted(session.subscriptions)
                dumps.append(self._dump(session, parts[0]))
                size += _about_bytes(dumps[-1])
                if size > _PIECE_BYTES:
                    yield dumps, [], False
                    dumps, size = [], 0
                for part in parts[1:]:
                    yield dumps, [More(number, part)], False
                    dumps, size = [], 0
            if dumps:
                yield dumps, [], False
        yield [], [], True

    def _dump(self, session: Session, subscriptions: dict[str, Subscription]) -> Dump:
        return Dump(
            session.number,
            session.client_id,
            session.namespace,
            session.owner,
            session.queue.messages.number,
            session.expiry_s,
            session.is_connected,
            session.disconnected_ms + self._fold.shift,
            session.will,
            subscriptions,
            sorted(session.held),
            session.outgoing,
            session.queue.dump(),
            session.queue.last_id,
            session.dropped,
            self._state.applied,
            session.queue.messages.followed.applied,
            session.sent_below,
            session.last_packet_id,
        )


def _told_already(damage: Damage) -> None:
    """When whole ones were looked for."""


def _about_bytes(dump: Dump) -> int:
    will_bytes = 0 if dump.will is None else len(dump.will.value) + len(dump.will.properties)
    return 200 + len(dump.entries) + will_bytes + sum(map(_subscription_bytes, dump.subscriptions.items()))


def _subscription_bytes(one: tuple[str, Subscription]) -> int:
    """At most: a character of a filter takes up to four."""
    return 64 + 4 * len(one[0]) + len(one[1].extra)


def _parted(subscriptions: dict[str, Subscription]) -> list[dict[str, Subscription]]:
    """As they are now, in parts of the size of a piece: at least one, mostly only that. One subscription alone may be
    larger."""
    parts: list[dict[str, Subscription]] = [{}]
    size = 0
    for one in subscriptions.items():
        size += _subscription_bytes(one)
        if size > _PIECE_BYTES and parts[-1]:
            parts.append({})
            size = _subscription_bytes(one)
        parts[-1][one[0]] = one[1]
    return parts


def restore_session(fold: Fold, dump: Dump) -> None:
    """A session as it was dumped."""
    session = fold.add(dump.number, dump.client_id, dump.namespace, dump.log)
    session.owner, session.expiry_s, session.will = dump.owner, dump.expiry_s, dump.will
    session.is_connected, session.disconnected_ms = dump.is_connected, dump.disconnected_ms
    session.held, session.dropped = frozenset(dump.held), dump.dropped
    session.sent_below, session.last_packet_id = dump.sent_below, dump.last_packet_id
    fold.subscribe(session, dump.subscriptions)
    session.restore_outgoing(dump.outgoing)
    session.restore_in_flight(
        [part for one in dump.outgoing if one.qos == 1 for part in (one.packet_id, one.message_id)]
    )
    entries = array("q")
    entries.frombytes(dump.entries)
    session.queue.restore(entries, dump.last_id)
