"""All sessions that outlive their connection: begun, subscribed, sent to, ended. State and messages are logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from penstock.broker.feed.stored import StoredBatch, StoredCache
from penstock.broker.sessions import forwarding, recovery
from penstock.broker.sessions.arrivals import follow
from penstock.broker.sessions.deadlines import Due
from penstock.broker.sessions.fold import Fold
from penstock.broker.sessions.followed import FollowedLog
from penstock.broker.sessions.messages import MessageLog, Totals
from penstock.broker.sessions.options import SessionOptions
from penstock.broker.sessions.records import (
    Begun,
    Connected,
    Disconnected,
    Ended,
    Held,
    Released,
    Settled,
    StateRecord,
    Subscribed,
    Subscription,
    Unsubscribed,
    Will,
    WillPublished,
    decode,
)
from penstock.broker.sessions.session import Session
from penstock.broker.sessions.snapshots import Snapshots
from penstock.broker.sessions.state_writer import StateWriter
from penstock.broker.sessions.targets import Accepted, Targets, accept
from penstock.core.errors import InvalidArgument, LogDamaged, LogPoisoned, PenstockError, TooLarge
from penstock.core.types import Durability
from penstock.kernels import hashing
from penstock.log.columns import Columns
from penstock.log.shard import Part, Shard

if TYPE_CHECKING:
    from penstock.broker.sessions.recovery import SessionLogs

logger = logging.getLogger("penstock.broker.sessions")


class Sessions:
    """Use Sessions.open(), from the shard's loop. Everything takes effect when its frame is committed, before whoever
    waits for that goes on."""

    def __init__(self, shard: Shard, logs: SessionLogs, now: Callable[[], int], options: SessionOptions) -> None:
        self._shard, self._now, self._options = shard, now, options
        self._loop = asyncio.get_running_loop()
        self.totals = Totals()
        cache = StoredCache()
        self._state = FollowedLog(shard, logs.state, StoredCache(1 << 20, 1))
        self._messages = [
            MessageLog(shard, log, number, cache, self.totals) for number, log in enumerate(logs.messages)
        ]
        self._writer = StateWriter(shard, logs.state, options.settle_delay_s)
        self._fold = Fold(self._make)
        self._snapshots = Snapshots(shard, logs.snapshots, self._state, self._messages, self._fold)
        shard.timeline.watch(self._note_jump)
        self._woken: dict[Session, None] = {}
        self._is_keeping_up = False

    @classmethod
    async def open(cls, shard: Shard, now: Callable[[], int], options: SessionOptions | None = None) -> Sessions:
        """Bring back what is there. Those that were connected count as disconnected now."""
        options = options or SessionOptions()
        logs = await recovery.logs(shard, options)
        sessions = cls(shard, logs, now, options)
        recovery.restore(shard, sessions._fold, sessions._state, sessions._messages, sessions._snapshots)
        shard.reader.maps.clear()  # everything was read once; what is read again is mapped again
        sessions._state.follow(sessions._apply)
        for messages in sessions._messages:
            follow(messages, sessions._fold.sessions, sessions._wake, sessions._snapshots.count)
        await sessions._disconnect_all()
        return sessions

    async def change(self, durability: Durability) -> None:
        """From now on all logs are so durable."""
        self._options = replace(self._options, durability=durability)
        await recovery.logs(self._shard, self._options)

    async def close(self) -> None:
        """What was settled is committed first, if it can be."""
        try:
            await self._writer.flush()
        except PenstockError as error:
            logger.warning("closing without the last records of sessions error=%s", error)
        self._writer.close()
        for log in (self._state.log, *(messages.log for messages in self._messages)):
            log.on_commit = None

    # Looking

    def __len__(self) -> int:
        return len(self._fold.sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._fold.sessions.values()))

    def find(self, client_id: str, namespace: str = "default") -> Session | None:
        return self._fold.clients.get(namespace, {}).get(client_id)

    @property
    def queued_messages(self) -> int:
        """Of all sessions: a message for two counts twice."""
        return self.totals.queued_messages

    @property
    def queued_bytes(self) -> int:
        return self.totals.queued_bytes

    # Life

    async def begin(
        self,
        client_id: str,
        *,
        owner: str,
        expiry_s: int,
        namespace: str = "default",
        will: Will | None = None,
        subscriptions: Mapping[str, Subscription] | None = None,
    ) -> Session:
        """A new one, connected. The one that the client has, ends in the same frame."""
        number = self._fold.next_number
        self._fold.next_number += 1
        log = hashing.murmur3(client_id.encode(), 0, len(client_id.encode())) % self._options.message_logs
        records: list[StateRecord] = []
        if (before := self.find(client_id, namespace)) is not None:
            records.append(Ended(before.number))
        records.append(Begun(number, client_id, namespace, owner, log, expiry_s, self._wall(), will))
        if subscriptions:
            records.append(Subscribed(number, dict(subscriptions)))
        await self._writer.write(*records)
        session = self._fold.sessions.get(number)
        if session is None:
            raise InvalidArgument(f"another session of client {client_id!r} began at the same time")
        return session

    async def connected(self, session: Session, *, owner: str, expiry_s: int, will: Will | None = None) -> None:
        """It goes on over a new connection."""
        await self._writer.write(Connected(session.number, owner, expiry_s, will))

    async def disconnected(
        self,
        session: Session,
        *,
        keeps_will: bool,
        expiry_s: int | None = None,
        in_flight: Iterable[tuple[int, int]] = (),
    ) -> None:
        """From now on its expiry counts, and the delay of its will, which a client that says goodbye takes back.
        `in_flight`: packet id and message id of what was sent with QoS 1 and not answered, in order. `expiry_s`: if the
        client named another one."""
        expiry_s = session.expiry_s if expiry_s is None else expiry_s
        pairs = list(chain.from_iterable(in_flight))
        await self._writer.write(Disconnected(session.number, self._wall(), expiry_s, keeps_will, pairs))

    async def end(self, session: Session) -> None:
        await self._writer.write(Ended(session.number))

    async def subscribe(self, session: Session, subscriptions: Mapping[str, Subscription]) -> None:
        """By filter; one that is there is replaced."""
        await self._writer.write(Subscribed(session.number, dict(subscriptions)))

    async def unsubscribe(self, session: Session, filters: Sequence[str]) -> None:
        await self._writer.write(Unsubscribed(session.number, list(filters)))

    def due(self, now: int) -> Due:
        """Wills to be published and sessions to be ended. Named again a while later if they are still there."""
        return self._fold.deadlines.due(now)

    def will_part(self, session: Session) -> Part:
        """Its will was published: for the frame that has it."""
        return self._writer.part(WillPublished(session.number))

    # Messages

    def accept(self, columns: Columns, targets: Targets) -> Accepted:
        """The parts of the publish's frame; close it when the frame is committed or will not be."""
        return accept(columns, targets, self._options)

    def held_part(self, session: Session, packet_ids: Sequence[int]) -> Part:
        """Messages came with QoS 2 under these packet ids: for the frame that has the messages."""
        return self._writer.part(Held(session.number, list(packet_ids)))

    async def released(self, session: Session, packet_ids: Sequence[int]) -> None:
        """PUBREL came: send PUBCOMP when this returns."""
        await self._writer.write(Released(session.number, list(packet_ids)))

    # Upkeep

    async def flush(self) -> None:
        """Returns when everything that was settled is committed."""
        await self._writer.flush()

    async def keep_up(self, now: int) -> None:
        """Every few seconds: a snapshot if one is due, and logs let go of what nobody wants."""
        if self._is_keeping_up:
            return
        self._is_keeping_up = True
        try:
            if self._snapshots.is_due(now):
                await self._snapshots.write(now)
            for messages in self._messages:
                await forwarding.clear(self._shard, messages, self._fold.sessions, self._writer)
        finally:
            self._is_keeping_up = False

    def _wall(self) -> int:
        return self._now() + self._fold.shift

    def _note_jump(self) -> None:
        """Records have wall times: all are written anew, as they are now."""
        self._fold.shift = self._shard.timeline.shift
        self._snapshots.is_wanted = True

    def _make(self, number: int, client_id: str, namespace: str, log: int) -> Session:
        return Session(number, client_id, namespace, self._messages[log], self._writer, self._options)

    def _apply(self, stored: StoredBatch) -> None:
        """What was settled is passed over: it was applied when the client said so."""
        size = 0
        for row in range(len(stored)):
            value = stored.batch.value(row)
            size += len(value)
            record = decode(value)
            if not isinstance(record, Settled):
                self._fold.apply(record)
        self._snapshots.count(len(stored), size)

    async def _disconnect_all(self) -> None:
        """Their connections ended with the process that had them, which may have sent whatever waited for them."""
        now = self._wall()
        records = [session.cut_off(now) for session in self._fold.sessions.values() if session.is_connected]
        if not records:
            return
        try:
            await self._writer.write(*records)
        except (LogDamaged, LogPoisoned, TooLarge) as error:
            # The next opening finds the same sessions connected, and begins anew.
            self._shard.tell_damage(self._state.log, f"that sessions are disconnected was not written: {error}")
            for record in records:
                self._fold.apply(record)

    def _wake(self, session: Session) -> None:
        """Once, however many batches came in this turn."""
        if session.listener is None:
            return
        if not self._woken:
            self._loop.call_soon(self._call_listeners)
        self._woken[session] = None

    def _call_listeners(self) -> None:
        woken, self._woken = self._woken, {}
        for session in woken:
            if session.listener is None:
                continue
            try:
                session.listener()
            except Exception:
                logger.exception("a listener failed client=%s", session.client_id)
