"""A subscription to a queue: messages of a group, sent to one client, settled by what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.broker.broker import Broker
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.queues.group import Group
from penstock.broker.queues.partitioned import PartitionedQueue
from penstock.broker.queues.unit import Unit
from penstock.gateways.mqtt.outbound.delivery_packets import template_of
from penstock.gateways.mqtt.outbound.queue_line import QueueLine
from penstock.kernels.mqtt_publish import Template

# Asked for before it is known how large messages of the queue are.
_FIRST_MESSAGES = 32


class Owner(Protocol):
    """Who began it for a client, and hears what becomes of it."""

    @property
    def name(self) -> str:
        """The client's."""

    def closed(self, consumer: QueueConsumer) -> None: ...

    def dismissed(self, consumer: QueueConsumer) -> None:
        """The queue or the group was deleted while the client consumed it."""

    def broke(self, consumer: QueueConsumer, error: BaseException) -> None:
        """It has stopped."""


class QueueConsumer:
    """An outlet, of one connection and filter. With `settles_by_answer`, PUBACK and PUBCOMP settle; with QoS 0, sending
    does."""

    def __init__(
        self,
        broker: Broker,
        line: QueueLine,
        group: Group,
        prefetch: int | None,
        qos: int,
        settles_by_answer: bool,
        owner: Owner,
    ) -> None:
        self._line, self._sender, self.group, self.qos = line, line.sender, group, qos
        self.manner = qos, settles_by_answer
        self._owner = owner
        self._templates: dict[Unit, Template] = {}
        self._settling = broker.settling
        self._at_once = _FIRST_MESSAGES
        """so many messages that they are not larger than what the client may leave lying"""
        self.member = broker.join(group, prefetch)
        self.member.name = owner.name
        self._feed = broker.feed(self.member, self)

    @property
    def queue(self) -> PartitionedQueue:
        return self.group.queue

    def room(self) -> int:
        """How many the client may be sent now."""
        if self.qos:
            room = min(self._sender.room - self._line.waiting, self._at_once)
        else:
            room = 0 if self._sender.is_behind else self._at_once
        if room <= 0:
            self._line.starved[self] = None
        return room

    def send(self, deliveries: list[Delivery]) -> int:
        taken = count = size = 0
        limit_bytes = self._sender.outbox.limit_bytes
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
        batch, limit_bytes = self.queue.settings.performance.batch_size, self._sender.outbox.limit_bytes
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
        self._sender.outgoing.abandon(self._line.flights.give_up(self))
        self._feed.close()
        self._owner.closed(self)

    def dismissed(self) -> None:
        self._owner.dismissed(self)

    def broke(self, error: BaseException) -> None:
        self._feed.stop()
        self._owner.broke(self, error)
