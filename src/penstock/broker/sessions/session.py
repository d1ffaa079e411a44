"""A session: what its client subscribed to, what waits for it, which packet ids are in use."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from penstock.broker.sessions.messages import MessageLog
from penstock.broker.sessions.options import NEVER_S, Policy, SessionOptions
from penstock.broker.sessions.queued import Queued, Taken
from penstock.broker.sessions.records import Completed, Disconnected, Received, Sent, Settled, Subscription, Will
from penstock.broker.sessions.state_writer import StateWriter
from penstock.core.errors import OffsetOutOfRange

logger = logging.getLogger("penstock.broker.sessions")

_PACKET_IDS = 65_535
# Packet ids from here on round the circle are new to a client after a crash: fewer were given out since the last one
# that the state log knows, within its delay of 200 ms.
_HALF_WAY_ROUND = _PACKET_IDS // 2


class Outgoing(NamedTuple):
    """A packet id in use. Of QoS 2: PUBLISH it again, or, if it was received, PUBREL."""

    packet_id: int
    message_id: int
    qos: int
    is_received: bool


class Session:
    """Used from the loop. A message has an id here, which rises. What is queued is what was not settled, handed out or
    not. Change it through `Sessions` and the verbs below."""

    __slots__ = (
        "_in_flight",
        "_options",
        "_outgoing",
        "_unsaid",
        "_writer",
        "client_id",
        "disconnected_ms",
        "dropped",
        "expiry_s",
        "held",
        "is_connected",
        "is_ended",
        "last_packet_id",
        "listener",
        "namespace",
        "number",
        "owner",
        "queue",
        "reserved",
        "reserved_bytes",
        "sent_below",
        "subscriptions",
        "will",
    )

    def __init__(
        self,
        number: int,
        client_id: str,
        namespace: str,
        messages: MessageLog,
        writer: StateWriter,
        options: SessionOptions,
    ) -> None:
        self.number, self.client_id, self.namespace = number, client_id, namespace
        self._writer, self._options = writer, options
        self.queue = Queued(messages)
        self.owner = ""
        self.expiry_s = 0
        self.is_connected, self.is_ended = True, False
        self.disconnected_ms = 0
        self.will: Will | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.held: frozenset[int] = frozenset()
        """packet ids of messages that came with QoS 2 and wait for PUBREL"""
        self.listener: Callable[[], None] | None = None
        """called after a commit has brought messages"""
        self.dropped = 0
        self.reserved = self.reserved_bytes = 0
        """of publishes under way"""
        self.sent_below = 0
        """messages with a lower id may have been sent already, on a connection that a crash ended"""
        self.last_packet_id = 0
        """the last one given out to messages, as far as it is known; 0 if it is not"""
        self._unsaid: array[int] | None = None
        """settled, behind others that are not, and not in the state log yet"""
        self._outgoing: dict[int, Outgoing] | None = None
        self._in_flight: dict[int, int] | None = None
        """packet ids and messages of QoS 1, as they were at the last disconnect"""

    def __repr__(self) -> str:
        return f"<session {self.number} of {self.client_id!r}: {self.queued} queued>"

    @property
    def queued(self) -> int:
        return self.queue.count

    @property
    def queued_bytes(self) -> int:
        return self.queue.bytes

    @property
    def ends_ms(self) -> int | None:
        """When it ends by itself; None while it is connected or if it does not."""
        if self.is_connected or self.expiry_s >= NEVER_S:
            return None
        return self.disconnected_ms + 1000 * self.expiry_s

    @property
    def will_due_ms(self) -> int | None:
        if self.will is None or self.is_connected:
            return None
        due_ms, ends_ms = self.disconnected_ms + 1000 * self.will.delay_s, self.ends_ms
        return due_ms if ends_ms is None else min(due_ms, ends_ms)

    @property
    def outgoing(self) -> list[Outgoing]:
        """In the order in which they are to be sent again: what was received, then the others by message."""
        known = [] if self._outgoing is None else list(self._outgoing.values())
        sent = [Outgoing(packet_id, message_id, 1, False) for packet_id, message_id in (self._in_flight or {}).items()]
        sent += [one for one in known if not one.is_received]
        return [one for one in known if one.is_received] + sorted(sent, key=lambda one: one.message_id)

    @property
    def in_flight(self) -> list[tuple[int, int]]:
        """(packet id, message id) of QoS 1, as they were at the last disconnect, without those that are settled."""
        return list((self._in_flight or {}).items())

    # Handing out

    @property
    def has_more(self) -> bool:
        """Whether something was not handed out on this connection."""
        return self.queue.next is not None

    def rewind(self) -> None:
        """For a new connection: everything is handed out again, but what `outgoing` names."""
        self.queue.rewind([one.message_id for one in self.outgoing if not one.is_received])

    def take_near(self, limit: int, limit_bytes: int) -> list[Taken]:
        """The next messages, up to `limit`, and `limit_bytes` unless the first alone is larger. Those that expired are
        settled instead. Nothing while a file has to be read for the first."""
        gone: list[int] = []
        found = self.queue.take_near(limit, limit_bytes, gone)
        if gone:
            self.settle(gone)
            self.queue.messages.totals.expired += len(gone)
        return found

    async def take(self, limit: int, limit_bytes: int) -> list[Taken]:
        """The same; reads files if it has to."""
        while True:
            found = self.take_near(limit, limit_bytes)
            following = self.queue.next
            if found or following is None or limit < 1 or limit_bytes < 1:
                return found
            await self._fetch(following.message_id, following.offset)

    async def look_up(self, message_ids: Iterable[int]) -> list[Taken]:
        """Messages that were handed out before, to be sent again; expired ones too, settled ones not."""
        found: list[Taken] = []
        wanted = list(message_ids)
        while (passed := self.queue.look_up(wanted, found)) < len(wanted):
            wanted = wanted[passed:]
            if (offset := self.queue.offset_of(wanted[0])) is not None:
                await self._fetch(wanted[0], offset)
        return found

    async def _fetch(self, message_id: int, offset: int) -> None:
        """A message that is not where it should be is given up, and said."""
        try:
            is_there = await self.queue.fetch(message_id, offset)
        except OffsetOutOfRange:
            is_there = self.queue.offset_of(message_id) != offset
        if not is_there:
            log = self.queue.messages.log.name
            logger.error("a message is missing client=%s log=%s offset=%d", self.client_id, log, offset)
            self.queue.messages.totals.lost += 1
            self.settle([message_id])

    # What the client said

    def settle(self, message_ids: Sequence[int]) -> None:
        """They are done with: acknowledged, written with QoS 0, given up. In the state log a little later; if that is
        lost, they come again."""
        if self.is_ended or not len(message_ids):
            return
        named = message_ids if isinstance(message_ids, array) else array("q", message_ids)
        self.apply_settled(named)
        if named[-1] >= self.queue.floor or max(named) >= self.queue.floor:
            self._unsaid = array("q") if self._unsaid is None else self._unsaid
            self._unsaid.extend(named)
        self._writer.touch(self)

    async def sent(self, packet_ids: Sequence[int], message_ids: Sequence[int]) -> None:
        """With QoS 2: call it before the PUBLISHes leave; when it returns, ids and messages belong together over a
        restart too."""
        await self._writer.write(Sent(self.number, list(packet_ids), list(message_ids)))

    async def received(self, packet_ids: Sequence[int]) -> None:
        """PUBREC came: send PUBREL when this returns. Their messages are settled."""
        await self._writer.write(Received(self.number, list(packet_ids)))

    def completed(self, packet_ids: Sequence[int]) -> None:
        """PUBCOMP came: the ids are free. In the state log a little later, before anything that is written after."""
        self.apply_completed(packet_ids)
        self._writer.note(Completed(self.number, list(packet_ids)))

    def unsaid(self) -> Settled:
        """What was settled and is not in the state log. said() strikes it off."""
        floor = self.queue.floor
        message_ids = [] if self._unsaid is None else [one for one in self._unsaid if one >= floor]
        return Settled(self.number, floor, message_ids, self.last_packet_id)

    def said(self) -> None:
        self._unsaid = None

    def cut_off(self, time_ms: int) -> Disconnected:
        """For a connection that ended with its process, which may have sent whatever waited. Messages of QoS 1 that it
        sent before others whose packet ids are known get ids here, which are new to the client: so all come again in
        the order in which they came."""
        outgoing = self.outgoing
        used = {one.packet_id for one in outgoing}
        last = (self.last_packet_id or max(used, default=0)) + _HALF_WAY_ROUND
        sent_until = max([one.message_id for one in outgoing if not one.is_received], default=0)
        named = list(zip(_packet_ids(last, used), self.queue.open_below(sent_until, 1), strict=False))
        return Disconnected(
            self.number,
            time_ms,
            self.expiry_s,
            True,
            list(chain.from_iterable([*self.in_flight, *named])),
            self.queue.last_id + 1,
            named[-1][0] if named else next(_packet_ids(last - 1, set())),
        )

    # What records do

    def apply_settled(self, message_ids: array[int]) -> None:
        self.queue.settle(message_ids)
        self._forget_settled()

    def apply_settled_below(self, message_id: int) -> None:
        self.queue.settle_below(message_id)
        self._forget_settled()

    def apply_sent(self, packet_ids: Sequence[int], message_ids: Sequence[int]) -> None:
        outgoing = self._outgoing = {} if self._outgoing is None else self._outgoing
        self.last_packet_id = packet_ids[-1] if packet_ids else self.last_packet_id
        for packet_id, message_id in zip(packet_ids, message_ids, strict=True):
            outgoing[packet_id] = Outgoing(packet_id, message_id, 2, False)

    def apply_received(self, packet_ids: Sequence[int]) -> array[int]:
        """The messages that are settled by it."""
        outgoing, settled = self._outgoing or {}, array("q")
        for packet_id in packet_ids:
            if (one := outgoing.pop(packet_id, None)) is not None:
                outgoing[packet_id] = one._replace(is_received=True)
                settled.append(one.message_id)
        return settled

    def apply_completed(self, packet_ids: Sequence[int]) -> None:
        outgoing = self._outgoing or {}
        for packet_id in packet_ids:
            outgoing.pop(packet_id, None)
        self._outgoing = outgoing or None

    def apply_disconnected(self, record: Disconnected) -> None:
        self.is_connected, self.disconnected_ms, self.expiry_s = False, record.time_ms, record.expiry_s
        self.will = self.will if record.keeps_will else None
        self.sent_below = max(self.sent_below, record.sent_below)
        self.last_packet_id = record.last_packet_id
        self.restore_in_flight(record.in_flight)
        self.rewind()

    def restore_outgoing(self, outgoing: Iterable[Outgoing]) -> None:
        self._outgoing = {one.packet_id: one for one in outgoing if one.qos == 2} or None

    def restore_in_flight(self, in_flight: Sequence[int]) -> None:
        """Packet ids and message ids, in turn."""
        self._in_flight = dict(zip(in_flight[::2], in_flight[1::2], strict=True)) or None

    def end(self) -> None:
        """Nothing waits any more."""
        self.is_ended = True
        self.queue.clear()

    def drop_excess(self) -> None:
        """Where the oldest go: as many as are too many."""
        options = self._options
        excess, excess_bytes = self.queued - options.max_queued_messages, self.queued_bytes - options.max_queued_bytes
        if options.policy is Policy.DROP_OLDEST and (excess > 0 or excess_bytes > 0):
            named = self.queue.oldest(excess, excess_bytes)
            self.settle(named)
            self.count_dropped(len(named))

    def count_dropped(self, count: int) -> None:
        self.dropped += count
        self.queue.messages.totals.dropped += count

    def _forget_settled(self) -> None:
        """Packet ids of messages that are done with, and that the client has not confirmed with PUBREC, are free."""
        is_open = self.queue.offset_of
        if self._in_flight is not None:
            self._in_flight = {one: it for one, it in self._in_flight.items() if is_open(it) is not None} or None
        if self._outgoing is not None:
            left = [one for one in self._outgoing.values() if one.is_received or is_open(one.message_id) is not None]
            self.restore_outgoing(left)


def _packet_ids(last: int, used: set[int]) -> Iterator[int]:
    """Those behind `last`, round and round, past those in use."""
    for packet_id in chain(range(last % _PACKET_IDS + 1, _PACKET_IDS + 1), range(1, last % _PACKET_IDS + 1)):
        if packet_id not in used:
            yield packet_id
