"""Messages that were stored for a session, sent to its client as that takes them."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Protocol

from penstock.broker.auth.permissions import Permissions
from penstock.broker.sessions.queued import Taken
from penstock.broker.sessions.session import Session as StoredSession
from penstock.broker.topics.router import Router
from penstock.codecs.mqtt.inflight import Awaits, Outgoing
from penstock.codecs.mqtt.kinds import PacketType
from penstock.gateways.mqtt.outbound.packets import Packets
from penstock.gateways.mqtt.outbound.sender import Sender
from penstock.gateways.mqtt.sessions.session import Session
from penstock.kernels.mqtt_encode import SPAN_WORDS, batch_spans, encode_acks, patch_packet_ids

_BYTES_AT_ONCE = 256 << 10
_PUBLISH, _DUP, _RETAIN_FLAG = 0x30, 0x08, 0x04
_QOS, _QOS_1 = 0x06, 0x02
# The first byte of a packet by the flags that its message was stored with.
_SENT = bytes([_PUBLISH | (flags & 3) << 1 | bool(flags & _RETAIN_FLAG) for flags in range(256)])
_SENT_AGAIN = bytes([head | _DUP for head in _SENT])


def awaited(stored: StoredSession) -> Outgoing:
    """The identifiers that the client may know from its last connection."""
    waits = [(each.packet_id, _awaits(each.qos, each.is_received)) for each in stored.outgoing]
    return Outgoing.restore(waits, stored.last_packet_id)


def _awaits(qos: int, is_received: bool) -> Awaits:
    if is_received:
        return Awaits.PUBCOMP
    return Awaits.PUBACK if qos == 1 else Awaits.PUBREC


class Taker(Protocol):
    """A client that is connected."""

    sender: Sender
    permissions: Permissions
    is_ended: bool

    async def has_room(self) -> bool:
        """Wait until the client takes more; False if it is gone."""

    def broke(self, error: BaseException) -> None:
        """Something went wrong here; this client pays for it."""


class StoredFeed:
    """Of one connection."""

    def __init__(self, taker: Taker, session: Session, stored: StoredSession, router: Router) -> None:
        self._taker, self._session, self._stored, self._router = taker, session, stored, router
        self._sender = taker.sender
        self._message_ids: dict[int, int] = {}
        """of the packet identifiers under way"""
        self._qos_2: set[int] = set()
        self._is_started = self._is_narrowed = False
        self._task: asyncio.Task[None] | None = None

    @property
    def in_flight(self) -> list[tuple[int, int]]:
        """(packet identifier, message) of QoS 1, in the order in which they were sent."""
        if not self._is_started:
            return self._stored.in_flight
        return [pair for pair in self._message_ids.items() if pair[0] not in self._qos_2]

    @property
    def is_about_to_send(self) -> bool:
        """Whether there is something that the client would take now."""
        return self._sender.room > 0 and (self._task is not None or self._stored.has_more)

    def start(self, receive_maximum: int, is_narrowed: bool) -> None:
        """After CONNACK: PUBREL for what the client has, then what it was sent and did not confirm, then the rest. With
        `is_narrowed`, rules allow less than when messages were stored: each is looked at."""
        self._is_started, self._is_narrowed = True, is_narrowed
        stored, outgoing = self._stored, self._sender.outgoing
        released = outgoing.resume(receive_maximum)
        if released:
            self._release(released)
        for each in stored.outgoing:
            self._message_ids[each.packet_id] = each.message_id
            if each.qos == 2:
                self._qos_2.add(each.packet_id)
        stored.rewind()
        stored.listener = self.pump
        self._begin(self._resend())

    def pump(self) -> None:
        """Send what may go out now."""
        if self._task is not None or self._taker.is_ended:
            return
        outgoing = self._sender.outgoing
        if outgoing.has_resends:
            if outgoing.window:
                self._begin(self._resend())
            return
        while (room := self._sender.room) > 0:
            taken = self._stored.take_near(room, _BYTES_AT_ONCE)
            if not taken:
                if self._stored.has_more:
                    self._begin(self._read())
                return
            for place, each in enumerate(taken):
                if 2 in [flags & 3 for flags in each.flags]:
                    self._begin(self._send_all(taken[place:]))
                    return
                self._send(each)

    def _begin(self, work: object) -> None:
        assert asyncio.iscoroutine(work)
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._taker.broke(error)
        else:
            self.pump()

    async def _read(self) -> None:
        room = self._sender.room
        if room > 0:
            await self._send_all(await self._stored.take(room, _BYTES_AT_ONCE))

    async def _send_all(self, taken: Iterable[Taken]) -> None:
        """Others may send to the client between: then some wait until it takes more."""
        for each in taken:
            while (room := self._sender.room) < len(each.rows):
                if room:
                    await self._send_some(_part(each, 0, room))
                    each = _part(each, room, len(each.rows))
                elif not await self._taker.has_room():
                    return
            await self._send_some(each)

    async def _send_some(self, taken: Taken) -> None:
        if 2 in [flags & 3 for flags in taken.flags]:
            await self._send_exactly_once(taken)
        else:
            self._send(taken)

    def _send(self, taken: Taken) -> None:
        """What is sent before, and not confirmed, comes again after a crash, with DUP and under another identifier."""
        packets, message_ids = self._packets(taken)
        ids = self._sender.send_now(packets)
        self._message_ids.update(zip(ids, self._without_unassured(packets, message_ids), strict=True))

    def _without_unassured(self, packets: Packets, message_ids: list[int]) -> list[int]:
        """Those with QoS 0 are done with when they are written."""
        if packets.with_id == len(packets):
            return message_ids
        self._stored.settle(
            [number for number, head in zip(message_ids, packets.heads, strict=True) if not head & _QOS]
        )
        return [number for number, head in zip(message_ids, packets.heads, strict=True) if head & _QOS]

    async def _send_exactly_once(self, taken: Taken) -> None:
        """Under which identifier a message goes out is durable before it does: sent again, it has the same one."""
        packets, message_ids = self._packets(taken)
        outgoing = self._sender.outgoing
        assured = [packets.qos_of(place) for place in range(len(packets)) if packets.qos_of(place)]
        message_ids = self._without_unassured(packets, message_ids)
        ids: list[int] = []
        for qos in assured:
            ids += outgoing.publish(1, qos)
        second = [place for place, qos in enumerate(assured) if qos == 2]
        self._message_ids.update(zip(ids, message_ids, strict=True))
        self._qos_2.update([ids[place] for place in second])
        await self._stored.sent([ids[place] for place in second], [message_ids[place] for place in second])
        self._sender.sent += len(packets)
        self._sender.outbox.write(packets.with_ids(ids))

    async def _resend(self) -> None:
        outgoing = self._sender.outgoing
        while ids := outgoing.resends():
            wanted = {self._message_ids[packet_id]: packet_id for packet_id in ids}
            for taken in await self._stored.look_up(list(wanted)):
                packets, message_ids = self._packets(taken, is_again=True)
                data = bytearray(packets.data)
                named = [wanted.pop(number) for number in message_ids]
                patch_packet_ids(data, packets.id_positions, array("i", named))
                self._sender.outbox.write(data)
            if wanted:
                self._give_up(list(wanted.values()))

    def _give_up(self, packet_ids: list[int]) -> None:
        """Messages that are not there any more, or are too large for the client now. It may hold their identifiers."""
        self._sender.outgoing.abandon(packet_ids)
        released = [packet_id for packet_id in packet_ids if packet_id in self._qos_2]
        for packet_id in packet_ids:
            if packet_id not in self._qos_2:
                del self._message_ids[packet_id]
        if released:
            self._release(released)

    def _release(self, packet_ids: list[int]) -> None:
        version = self._session.version
        self._sender.outbox.write(encode_acks(PacketType.PUBREL, array("i", packet_ids), None, version))

    def _packets(self, taken: Taken, is_again: bool = False) -> tuple[Packets, list[int]]:
        """Without those that are too large for the client, or that it may not have, which are done with."""
        if self._is_narrowed:
            taken = self._allowed(taken)
        batch = taken.stored.batch
        spans = array("q", bytes(8 * SPAN_WORDS * len(taken.rows)))
        batch_spans(batch.body, batch.layout, taken.rows, spans)
        heads = bytes(taken.flags.translate(_SENT_AGAIN if is_again else _SENT))
        if not is_again and taken.message_ids and taken.message_ids[0] < self._stored.sent_below:
            heads = self._perhaps_again(taken, heads)
        audience = self._session.audience
        stamp = batch.header.base_timestamp
        packets, oversized = audience.encode_stored(batch.body, spans, heads, self._identifiers(taken), stamp)
        message_ids = list(taken.message_ids)
        if oversized:
            self._stored.settle([message_ids[place] for place in oversized])
            message_ids = [number for place, number in enumerate(message_ids) if place not in set(oversized)]
        return packets, message_ids

    def _perhaps_again(self, taken: Taken, heads: bytes) -> bytes:
        """DUP for those of QoS 1 that may have been sent before a crash; which of QoS 2 were is known."""
        below = bisect_left(taken.message_ids, self._stored.sent_below)
        again = [head | _DUP if head & _QOS == _QOS_1 else head for head in heads[:below]]
        return bytes(again) + heads[below:]

    def _allowed(self, taken: Taken) -> Taken:
        may_receive, batch = self._taker.permissions.may_receive, taken.stored.batch
        kept = [place for place, row in enumerate(taken.rows) if may_receive(batch.topic(row) or b"")]
        gone = set(taken.message_ids) - {taken.message_ids[place] for place in kept}
        self._stored.settle(sorted(gone))
        return Taken(
            taken.stored,
            array("i", [taken.rows[place] for place in kept]),
            array("q", [taken.message_ids[place] for place in kept]),
            bytearray([taken.flags[place] for place in kept]),
        )

    def _identifiers(self, taken: Taken) -> list[tuple[int, ...]] | None:
        """Subscription identifiers of each row, as the session has them now."""
        session = self._session
        if not any(each.identifier for each in session.subscriptions.values()):
            return None
        return [self._router.identifiers(session, taken.stored.batch.topic(row) or b"") for row in taken.rows]

    # What the client says

    def received(self, packet_ids: list[int]) -> list[int]:
        """Of those that PUBREC came for, the ones that are the session's."""
        return [packet_id for packet_id in packet_ids if packet_id in self._qos_2]

    def settled(self, kind: PacketType, packet_ids: list[int]) -> None:
        """The client has them, or does not want them."""
        mine = [packet_id for packet_id in packet_ids if packet_id in self._message_ids]
        if not mine:
            return
        done = [self._message_ids.pop(packet_id) for packet_id in mine]
        self._stored.last_packet_id = self._sender.outgoing.last
        if kind is not PacketType.PUBCOMP:
            self._stored.settle(done)
        if kind is not PacketType.PUBACK:
            self._qos_2.difference_update(mine)
            self._stored.completed(mine)

    def close(self) -> None:
        """The session may have another connection by now, which listens."""
        if self._stored.listener == self.pump:
            self._stored.listener = None
        if self._task is not None:
            self._task.cancel()


def _part(taken: Taken, start: int, stop: int) -> Taken:
    return Taken(taken.stored, taken.rows[start:stop], taken.message_ids[start:stop], taken.flags[start:stop])
