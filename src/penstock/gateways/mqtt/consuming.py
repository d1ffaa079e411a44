"""A subscription to a queue: messages of a group, sent to one client, settled by what it answers."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.broker.delivery import Delivery
from penstock.broker.group import Group
from penstock.broker.queue import Queue
from penstock.core.errors import Closed, PenstockError
from penstock.gateways.mqtt.delivery_packets import DeliveryPackets

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection

logger = logging.getLogger("penstock.mqtt")

_ANY_NUMBER = 1 << 30
_ROW_BITS = 24
# Asked for before it is known how large messages of the queue are.
_FIRST_MESSAGES = 32


class QueueConsumer:
    """Of one connection and filter. With `settles_by_answer`, PUBACK and PUBCOMP settle; with QoS 0, sending does. With
    `ends_group`, nobody else is meant to be in the group, and it ends with the last consumer."""

    def __init__(
        self,
        connection: Connection,
        group: Group,
        prefetch: int | None,
        qos: int,
        settles_by_answer: bool,
        ends_group: bool = False,
    ) -> None:
        self._connection, self._group, self.qos = connection, group, qos
        self._settles_by_answer, self._ends_group = settles_by_answer, ends_group
        broker = connection.gateway.broker
        self.member = broker.join(group, prefetch)
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
        self._room = asyncio.Event()
        self._task = connection.gateway.loop.create_task(self._run())
        self._task.add_done_callback(self._ended)

    @property
    def queue(self) -> Queue:
        return self._group.queue

    @property
    def group(self) -> Group:
        return self._group

    async def _run(self) -> None:
        while not self.member.is_closed:
            room = min(await self._has_room(), self._at_once)
            found = self.member.receive_now(room)
            if not found and self.member.may_have_more:
                found = await self.member.receive(room)
            if not found:
                await self.member.wait()
            for delivery in found:
                await self._send_all(delivery)

    async def _has_room(self) -> int:
        """How many the client may be sent now; waits until that is at least one."""
        sender = self._connection.sender
        while (room := sender.room if self.qos else (0 if sender.is_behind else _ANY_NUMBER)) <= 0:
            self._room.clear()
            await self._room.wait()
        return room

    async def _send_all(self, delivery: Delivery) -> None:
        """Between asking for messages and getting them the client may have been sent others: then some wait."""
        while (room := await self._has_room()) < len(delivery):
            self._send(delivery.part(0, room))
            delivery = delivery.part(room, len(delivery))
        self._send(delivery)

    def _send(self, delivery: Delivery) -> None:
        """There must be room."""
        packets, oversized = self._packets.encode(delivery, self.qos, self._connection.gateway.broker.now())
        batch, limit_bytes = self.queue.settings.performance.batch_size, self._connection.outbox.limit_bytes
        self._at_once = max(1, min(batch, limit_bytes * len(delivery) // (len(packets.data) + 1)))
        places: Sequence[int] = range(len(delivery))
        if oversized:
            self._give_up(delivery, oversized)
            gone = set(oversized)
            if not (places := [place for place in places if place not in gone]):
                return
        if not self.qos:
            self._connection.outbox.write(packets.data)
            self._connection.sender.sent += len(packets)
            self._ack(delivery, *_named(delivery, places))
            return
        ids = self._connection.sender.send_now(packets)
        if self._settles_by_answer:
            self._next += 1
            first = self._next << _ROW_BITS
            words = [first + place for place in places] if oversized else range(first, first + len(ids))
            self._under_way.update(zip(ids, words, strict=True))
            self._sent[self._next], self._left[self._next] = delivery, len(ids)

    def _give_up(self, delivery: Delivery, places: Sequence[int]) -> None:
        """The client takes no packet that large, and never will."""
        offsets, deliveries = _named(delivery, places)
        detail = "larger than the consumer's maximum packet size"
        self._connection.gateway.spawn(
            self._settling.reject(delivery.group, delivery.unit, offsets, deliveries, delivery.consumer, detail)
        )

    def _ack(self, delivery: Delivery, offsets: array[int], deliveries: array[int] | None) -> None:
        self._settling.ack_now(delivery.group, delivery.unit, offsets, deliveries, delivery.consumer)

    def settled(self, finished: list[int], refused: list[int]) -> None:
        """The client answered: what is ours of it is done, or has failed."""
        if not self._under_way:
            return
        for number, places in self._taken_out(finished):
            delivery = self._sent[number]
            self._ack(delivery, *_named(delivery, places))
            self._answered(number, len(places))
        for number, places in self._taken_out(refused):
            self._fail(self._sent[number], places)
            self._answered(number, len(places))

    def _taken_out(self, packet_ids: list[int]) -> list[tuple[int, list[int]]]:
        take = self._under_way.pop
        found = [word for packet_id in packet_ids if (word := take(packet_id, -1)) >= 0]
        mask = (1 << _ROW_BITS) - 1
        return [(number, [word & mask for word in some]) for number, some in groupby(found, lambda w: w >> _ROW_BITS)]

    def _answered(self, number: int, count: int) -> None:
        self._left[number] -= count
        if not self._left[number]:
            del self._left[number], self._sent[number]

    def _fail(self, delivery: Delivery, places: list[int]) -> None:
        offsets, deliveries = _named(delivery, places)
        work = self._settling.fail(delivery.group, delivery.unit, offsets, deliveries, delivery.consumer)
        self._connection.gateway.spawn(work)

    def pump(self) -> None:
        """The client may take more."""
        self._room.set()

    def close(self) -> None:
        """What the client holds goes back to the group, and is not sent again under its identifier."""
        self._task.cancel()
        self._connection.session.outgoing.abandon(list(self._under_way))
        self._under_way.clear()
        self._group.leave(self.member)
        if self._ends_group and not self._group.is_active:
            self._connection.gateway.spawn(self._end_group())

    async def _end_group(self) -> None:
        if self.queue.groups.get(self._group.key) is self._group:
            await self._connection.gateway.broker.declaring.delete_group(self._group)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is None or isinstance(error, Closed):
            return
        if isinstance(error, PenstockError):
            logger.warning("consumer stopped queue=%s group=%s error=%s", self.queue.name, self._group.name, error)
        self._connection.broke(error)


def _named(delivery: Delivery, places: Sequence[int]) -> tuple[array[int], array[int]]:
    """With how often each was handed out then: an answer to an earlier delivery settles no later one."""
    offsets, counts = delivery.offsets, delivery.counts
    if len(places) == len(offsets):
        return offsets, counts
    return array("q", [offsets[place] for place in places]), array("i", [counts[place] for place in places])
