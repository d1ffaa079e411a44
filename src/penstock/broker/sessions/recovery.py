"""Bringing sessions back: the newest snapshot, then what the logs have that it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.broker.feed.stored import StoredBatch
from penstock.broker.sessions.arrivals import apply
from penstock.broker.sessions.fold import Fold
from penstock.broker.sessions.followed import FollowedLog
from penstock.broker.sessions.messages import MessageLog
from penstock.broker.sessions.options import SessionOptions
from penstock.broker.sessions.records import decode
from penstock.broker.sessions.snapshots import Snapshots, restore_session
from penstock.core.types import LogName
from penstock.kernels.session_entries import WORDS
from penstock.log.batch import Batch
from penstock.log.names import log_name
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.shard import Shard

_STATE, _SNAPSHOTS, _MESSAGES = "state", "snapshots", "messages"
# Of sessions that nobody knows any more: messages carry them, and must not reach whoever begins now.
_LOST_NUMBERS = 1 << 20


@dataclass(frozen=True, slots=True)
class SessionLogs:
    state: Log
    snapshots: Log
    messages: list[Log]


class Known(NamedTuple):
    """Up to where a session that a snapshot brought knows the logs."""

    state_end: int
    messages_end: int


async def logs(shard: Shard, options: SessionOptions) -> SessionLogs:
    """Those that are there, with the settings of the options, and what is missing of those that are wanted."""
    known = {log.name: log for log in shard.logs}
    numbers = 0
    while numbers < options.message_logs or _name(_MESSAGES, str(numbers)) in known:
        numbers += 1
    messages = [_name(_MESSAGES, str(number)) for number in range(numbers)]
    settings = LogSettings(durability=options.durability, segment_bytes=8 << 20)
    large = LogSettings(durability=options.durability, segment_bytes=options.segment_bytes)
    wanted = [(_name(_STATE), settings), (_name(_SNAPSHOTS), settings), *((name, large) for name in messages)]
    missing = [(name, setting) for name, setting in wanted if name not in known]
    if missing:
        known |= {log.name: log for log in await shard.create_many(missing)}
    await shard.change_different([(known[name], setting) for name, setting in wanted])
    return SessionLogs(known[_name(_STATE)], known[_name(_SNAPSHOTS)], [known[name] for name in messages])


def restore(shard: Shard, fold: Fold, state: FollowedLog, messages: list[MessageLog], snapshots: Snapshots) -> None:
    """State before messages, so that those of sessions that are gone reach nobody; what settles messages is done when
    they are there."""
    fold.deferred = []
    known: dict[int, Known] = {}
    told = len(shard.damages)
    for piece in snapshots.read():
        fold.next_number = max(fold.next_number, piece.next_number)
        state.applied = max(piece.state_start, state.log.start)
        for log, start in zip(messages, piece.messages_starts, strict=False):
            log.followed.applied = max(start, log.log.start)
        for dump in piece.sessions:
            known[dump.number] = Known(dump.state_end, dump.messages_end)
            restore_session(fold, dump)
        for more in piece.more:
            fold.subscribe(fold.sessions[more.number], more.subscriptions)
    _replay_state(shard, fold, state, {number: one.state_end for number, one in known.items()}, snapshots)
    if len(shard.damages) > told:
        fold.next_number += _LOST_NUMBERS
    messages_ends = {number: one.messages_end for number, one in known.items()}
    for log in messages:
        _replay_messages(shard, fold, log, messages_ends, snapshots)
    fold.settle_deferred()
    for session in fold.sessions.values():
        session.rewind()
        if not session.is_connected:
            fold.deadlines.watch(session)


def _replay_state(
    shard: Shard, fold: Fold, state: FollowedLog, known_until: dict[int, int], snapshots: Snapshots
) -> None:
    start = state.applied
    for data in shard.readable(state.log, start):
        for row in Batch.parse(data, verify=False):
            record = decode(row.value)
            if row.offset >= max(start, known_until.get(record.number, 0)):
                fold.apply(record)
                snapshots.count(1, len(row.value))
    state.applied = state.log.visible_end


def _replay_messages(
    shard: Shard, fold: Fold, messages: MessageLog, known_until: dict[int, int], snapshots: Snapshots
) -> None:
    for data in shard.readable(messages.log, messages.followed.applied):
        stored = StoredBatch.of(data)
        told = apply(messages, stored, fold.sessions, known_until)
        snapshots.count(len(stored), 8 * WORDS * len(told))
    messages.followed.applied = messages.log.visible_end


def _name(*parts: str) -> LogName:
    return log_name("@sessions", *parts)
