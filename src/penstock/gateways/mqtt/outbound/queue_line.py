"""What queues bring to one connection while all who are hungry are fed: encoded, numbered and noted together, because
what a message or two of each of a hundred queues cost is mostly calls."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.gateways.mqtt.outbound.delivery_packets import DeliveryPackets
from penstock.gateways.mqtt.outbound.queue_flights import QueueFlights

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection
    from penstock.gateways.mqtt.outbound.queue_consumer import QueueConsumer


class QueueLine:
    """Of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._broker = connection.gateway.broker
        session = connection.session
        self.packets = DeliveryPackets(session.version, session.max_packet_bytes)
        self.flights = QueueFlights()
        self.waiting = 0
        """messages with QoS that go out with the next flush()"""
        self._waiting_bytes = 0
        self._added: list[tuple[QueueConsumer, list[Delivery]]] = []

    def let_go(self) -> None:
        """Of the connection, which has ended."""
        del self._connection

    def add(self, consumer: QueueConsumer, deliveries: list[Delivery], count: int, size: int) -> None:
        """So many messages, in batches of so many bytes, for which there is room."""
        self._added.append((consumer, deliveries))
        self._waiting_bytes += size
        if consumer.qos:
            self.waiting += count
        if self._waiting_bytes > self._connection.outbox.limit_bytes:
            # Else nobody knows before all are fed that the client does not take it.
            self.flush()
        elif len(self._added) == 1:
            self._broker.after_feeding(self.flush)

    def flush(self) -> None:
        """Out with what was added."""
        added, self._added = self._added, []
        self.waiting = self._waiting_bytes = 0
        if not added:
            return
        try:
            for manner in dict.fromkeys([consumer.manner for consumer, _ in added]):
                self._send(manner, [each for each in added if each[0].manner == manner])
        except Exception as error:
            self._connection.broke(error)

    def _send(self, manner: tuple[int, bool], added: list[tuple[QueueConsumer, list[Delivery]]]) -> None:
        qos, settles_by_answer = manner
        if not self.packets.fit([delivery for _, some in added for delivery in some]):
            added = [(consumer, self._fitting(consumer, some)) for consumer, some in added]
        owners = [consumer for consumer, some in added for _ in some]
        deliveries = [delivery for _, some in added for delivery in some]
        if not deliveries:
            return
        stops = array("i", accumulate([len(delivery.rows) for delivery in deliveries]))
        templates = [owner.template(delivery.unit) for owner, delivery in zip(owners, deliveries, strict=True)]
        sender = self._connection.sender
        ids = sender.identified(stops[-1], qos)
        data = self.packets.encode(deliveries, templates, stops, qos, self._broker.timeline, ids)
        self._connection.outbox.write(data)
        self._learn(added, stops)
        if not qos:
            self._broker.settling.several([Held(delivery) for delivery in deliveries], is_awaited=False)
        elif settles_by_answer:
            self.flights.sent(owners, deliveries, stops, ids)

    def _learn(self, added: list[tuple[QueueConsumer, list[Delivery]]], stops: array[int]) -> None:
        ends, part, first, first_byte = self.packets.ends(), 0, 0, 0
        for consumer, some in added:
            if some:
                part += len(some)
                stop = stops[part - 1]
                consumer.learn(stop - first, ends[stop - 1] - first_byte)
                first, first_byte = stop, ends[stop - 1]

    def _fitting(self, consumer: QueueConsumer, deliveries: list[Delivery]) -> list[Delivery]:
        """Those that the client takes."""
        found = []
        for delivery in deliveries:
            template = consumer.template(delivery.unit)
            if oversized := self.packets.oversized(delivery, template, consumer.qos, self._broker.timeline):
                consumer.give_up(delivery, oversized)
                gone = set(oversized)
                delivery = delivery.picked([place for place in range(len(delivery)) if place not in gone])
            if delivery.rows:
                found.append(delivery)
        return found
