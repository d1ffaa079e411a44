"""A subscription to a queue: messages of a group, sent to one client, settled by what it answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.core.errors import PenstockError
from penstock.gateways.mqtt.outbound.delivery_packets import DeliveryPackets

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection

logger = logging.getLogger("penstock.mqtt")

_ROW_BITS = 24
# Asked for before it is known how large messages of the queue are.
_FIRST_MESSAGES = 32


class QueueConsumer:
    """An outlet, of one connection and filter. With `settles_by_answer`, PUBACK and PUBCOMP settle; with QoS 0, sending
    does. With `ends_group`, nobody else is meant to be in the group, and it ends with the last consumer."""

    def __init__(
        self,
        connection: Connection,
        group: Group,
        prefetch: int | None,
        qos: int,
        settles_by_answer: bool,
        ends_group: bool = False,
    ) -> None:
        self._connection, self.group, self.qos = connection, group, qos
        self._settles_by_answer, self._ends_group = settles_by_answer, ends_group
        broker = connection.gateway.broker
        self._settling = broker.settling
        self._packets = DeliveryPackets(group, connection.session.version, connection.session.max_packet_bytes)
        self._under_way: dict[int, int] = {}
        """of a packet identifier: number of the delivery and place in it"""
        self._sent: dict[int, Delivery] = {}
        self._left: dict[int, int] = {}
        """of a delivery: how many were not answered yet"""
        self._next = 0
        self._at_once = _FIRST_MESSAGES
        """so many messages that they are not larger than what the client may leave lying"""
        self.member = broker.join(group, prefetch)
        self.member.name = connection.name
        self._feed = broker.feed(self.member, self)

    @property
    def queue(self) -> Queue:
        return self.group.queue

    def room(self) -> int:
        """How many the client may be sent now."""
        sender = self._connection.sender
        if self.qos:
            return min(sender.room, self._at_once)
        return 0 if sender.is_behind else self._at_once

    def send(self, delivery: Delivery) -> None:
        timeline = self._connection.gateway.broker.timeline
        now = timeline.now_at(delivery.stored.batch.header.base_timestamp)
        if self.qos and self._packets.fit(delivery):
            ids = self._connection.sender.identified(len(delivery), self.qos)
            data = self._packets.encode_with_ids(delivery, self.qos, now, ids)
            self._connection.outbox.write(data)
            self._await(delivery, ids, range(len(ids)))
            self._learn(delivery, len(data))
        else:
            self._send_fitting(delivery, now)

    def _send_fitting(self, delivery: Delivery, now: int) -> None:
        """Those that the client takes; also without QoS."""
        packets, oversized = self._packets.encode(delivery, self.qos, now)
        self._learn(delivery, len(packets.data))
        places: Sequence[int] = range(len(delivery))
        if oversized:
            self._give_up(delivery, oversized)
            gone = set(oversized)
            if not (places := [place for place in places if place not in gone]):
                return
        if not self.qos:
            self._connection.outbox.write(packets.data)
            self._connection.sender.sent += len(packets)
            self._settling.ack(Held(delivery, places))
        else:
            self._await(delivery, self._connection.sender.send_now(packets), places)

    def _await(self, delivery: Delivery, ids: list[int], places: Sequence[int]) -> None:
        """The client will answer with these identifiers, each for the message at its place."""
        if not self._settles_by_answer:
            return
        self._next += 1
        first = self._next << _ROW_BITS
        words = range(first, first + len(ids)) if len(ids) == len(delivery) else [first + place for place in places]
        self._under_way.update(zip(ids, words, strict=True))
        self._sent[self._next], self._left[self._next] = delivery, len(ids)

    def _learn(self, delivery: Delivery, size: int) -> None:
        """How large messages of the queue are."""
        batch, limit_bytes = self.queue.settings.performance.batch_size, self._connection.outbox.limit_bytes
        self._at_once = max(1, min(batch, limit_bytes * len(delivery) // (size + 1)))

    def _give_up(self, delivery: Delivery, places: Sequence[int]) -> None:
        """The client takes no packet that large, and never will."""
        self._settling.reject(Held(delivery, places), "larger than the consumer's maximum packet size")

    def settled(self, finished: list[int], refused: list[int]) -> None:
        """The client answered: what is ours of it is done, or has failed."""
        if not self._under_way:
            return
        if done := self._taken_out(finished):
            self._settling.several(done)
        for held in self._taken_out(refused) if refused else ():
            self._settling.fail(held)

    def _taken_out(self, packet_ids: list[int]) -> list[Held]:
        """What was sent with these identifiers and is under way no more."""
        take, mask = self._under_way.pop, (1 << _ROW_BITS) - 1
        found = [word for packet_id in packet_ids if (word := take(packet_id, -1)) >= 0]
        if found and (number := found[0] >> _ROW_BITS) == max(found) >> _ROW_BITS == min(found) >> _ROW_BITS:
            return [self._answered(number, [word & mask for word in found])]
        runs = groupby(found, lambda word: word >> _ROW_BITS)
        return [self._answered(number, [word & mask for word in some]) for number, some in runs]

    def _answered(self, number: int, places: list[int]) -> Held:
        delivery = self._sent[number]
        self._left[number] -= len(places)
        if not self._left[number]:
            del self._left[number], self._sent[number]
        return Held(delivery, None if len(places) == len(delivery) else places)

    def pump(self) -> None:
        """The client may take more."""
        self._feed.has_room()

    def close(self) -> None:
        """What the client holds goes back to the group, and is not sent again under its identifier."""
        self._connection.session.outgoing.abandon(list(self._under_way))
        self._under_way.clear()
        self._feed.close()
        if self._ends_group and not self.group.is_wanted:
            self._connection.gateway.spawn(self._end_group())

    async def _end_group(self) -> None:
        if self.queue.groups.get(self.group.key) is self.group:
            await self._connection.gateway.broker.declaring.delete_group(self.group)

    def dismissed(self) -> None:
        self._connection.dismissed(self)

    def broke(self, error: BaseException) -> None:
        """Then the client pays for it."""
        self._feed.stop()
        if isinstance(error, PenstockError):
            text = "consumer stopped queue=%s group=%s error=%s"
            self._connection.gateway.telling.warn("consumer", text, self.queue.name, self.group.name, error)
        self._connection.broke(error)
