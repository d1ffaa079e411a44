"""A subscription to a queue: messages of a group, sent to one client, settled by what it answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
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
        room = min(sender.room, self._at_once) if self.qos else 0 if sender.is_behind else self._at_once
        if room <= 0:
            self._connection.deliveries.starved[self] = None
        return room

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
            self._settling.ack(Held(delivery, places), is_awaited=False)
        else:
            self._await(delivery, self._connection.sender.send_now(packets), places)

    def _await(self, delivery: Delivery, ids: list[int], places: Sequence[int]) -> None:
        if self._settles_by_answer:
            self._connection.deliveries.queues.sent(self, delivery, ids, places)

    def _learn(self, delivery: Delivery, size: int) -> None:
        """How large messages of the queue are."""
        batch, limit_bytes = self.queue.settings.performance.batch_size, self._connection.outbox.limit_bytes
        self._at_once = max(1, min(batch, limit_bytes * len(delivery) // (size + 1)))

    def _give_up(self, delivery: Delivery, places: Sequence[int]) -> None:
        """The client takes no packet that large, and never will."""
        self._settling.reject(Held(delivery, places), "larger than the consumer's maximum packet size")

    def pump(self) -> None:
        """The client may take more."""
        self._feed.has_room()

    def close(self) -> None:
        """What the client holds goes back to the group, and is not sent again under its identifier."""
        self._connection.session.outgoing.abandon(self._connection.deliveries.queues.give_up(self))
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
