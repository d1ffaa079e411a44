"""A subscription to a queue: messages of a group, sent to one client, settled by what it answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.core.errors import PenstockError
from penstock.gateways.mqtt.outbound.delivery_packets import template_of
from penstock.kernels.mqtt_publish import Template

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
        self.manner = qos, settles_by_answer
        """what is sent together has the same"""
        self._ends_group = ends_group
        self._line = connection.deliveries.line
        self._templates: dict[Unit, Template] = {}
        broker = connection.gateway.broker
        self._settling = broker.settling
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
            room = min(sender.room - self._line.waiting, self._at_once)
        else:
            room = 0 if sender.is_behind else self._at_once
        if room <= 0:
            self._connection.deliveries.starved[self] = None
        return room

    def send(self, deliveries: list[Delivery]) -> int:
        taken = count = size = 0
        limit_bytes = self._connection.outbox.limit_bytes
        for delivery in deliveries:
            if size > limit_bytes:
                break
            size += len(delivery.stored.data)
            count += len(delivery.rows)
            taken += 1
        self._line.add(self, deliveries if taken == len(deliveries) else deliveries[:taken], count, size)
        return taken

    def template(self, unit: Unit) -> Template:
        found = self._templates.get(unit)
        if found is None:
            found = self._templates[unit] = template_of(self.group, unit.partition)
        return found

    def learn(self, count: int, size: int) -> None:
        """How large messages of the queue are: so many went out in so many bytes."""
        batch, limit_bytes = self.queue.settings.performance.batch_size, self._connection.outbox.limit_bytes
        self._at_once = max(1, min(batch, limit_bytes * count // (size + 1)))

    def give_up(self, delivery: Delivery, places: Sequence[int]) -> None:
        """The client takes no packet that large, and never will."""
        self._settling.reject(Held(delivery, places), "larger than the consumer's maximum packet size")

    def pump(self) -> None:
        """The client may take more."""
        self._feed.has_room()

    def close(self) -> None:
        """What the client holds goes back to the group, and is not sent again under its identifier."""
        self._line.flush()
        self._connection.session.outgoing.abandon(self._line.flights.give_up(self))
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
