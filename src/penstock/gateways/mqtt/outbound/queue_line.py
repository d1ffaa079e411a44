"""What queues bring to one connection while all who are hungry are fed: encoded, numbered and noted together, because
what a message or two of each of a hundred queues cost is mostly calls."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Protocol

from penstock.broker.broker import Broker
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.queues.unit import Unit
from penstock.gateways.mqtt.outbound.delivery_packets import DeliveryPackets
from penstock.gateways.mqtt.outbound.queue_flights import QueueFlights
from penstock.gateways.mqtt.outbound.sender import Sender
from penstock.gateways.mqtt.sessions.session import Session
from penstock.kernels.mqtt_publish import Template


class Source(Hashable, Protocol):
    """What brings messages of one queue."""

    qos: int
    manner: tuple[int, bool]
    """what is sent together has the same: QoS, and whether answers of the client settle"""

    def template(self, unit: Unit) -> Template: ...

    def learn(self, count: int, size: int) -> None:
        """How large messages of the queue are: so many went out in so many bytes."""

    def give_up(self, delivery: Delivery, places: Sequence[int]) -> None:
        """The client takes no packet that large, and never will."""

    def pump(self) -> None:
        """The client may take more."""


class QueueLine:
    """Of one connection. `broke` is told what goes wrong when nobody waits for it."""

    def __init__(
        self, broker: Broker, session: Session, sender: Sender, broke: Callable[[BaseException], None]
    ) -> None:
        self._broker, self._broke, self.sender = broker, broke, sender
        self.packets = DeliveryPackets(session.version, session.max_packet_bytes)
        self.flights = QueueFlights()
        self.waiting = 0
        """messages with QoS that go out with the next flush()"""
        self._waiting_bytes = 0
        self._added: list[tuple[Source, list[Delivery]]] = []
        self.starved: dict[Source, None] = {}
        """those for whose messages there was no room"""

    def let_go(self) -> None:
        """Of the connection, which has ended."""
        self.starved.clear()
        del self._broke

    def pump(self) -> None:
        """The client may take more."""
        starved, self.starved = self.starved, {}
        for source in starved:
            source.pump()

    def add(self, source: Source, deliveries: list[Delivery], count: int, size: int) -> None:
        """So many messages, in batches of so many bytes, for which there is room."""
        self._added.append((source, deliveries))
        self._waiting_bytes += size
        if source.qos:
            self.waiting += count
        if self._waiting_bytes > self.sender.outbox.limit_bytes:
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
            for manner in dict.fromkeys([source.manner for source, _ in added]):
                self._send(manner, [each for each in added if each[0].manner == manner])
        except Exception as error:
            self._broke(error)

    def _send(self, manner: tuple[int, bool], added: list[tuple[Source, list[Delivery]]]) -> None:
        qos, settles_by_answer = manner
        if not self.packets.fit([delivery for _, some in added for delivery in some]):
            added = [(source, self._fitting(source, some)) for source, some in added]
        owners = [source for source, some in added for _ in some]
        deliveries = [delivery for _, some in added for delivery in some]
        if not deliveries:
            return
        stops = array("i", accumulate([len(delivery.rows) for delivery in deliveries]))
        templates = [owner.template(delivery.unit) for owner, delivery in zip(owners, deliveries, strict=True)]
        ids = self.sender.identified(stops[-1], qos)
        data = self.packets.encode(deliveries, templates, stops, qos, self._broker.timeline, ids)
        self.sender.outbox.write(data)
        self._learn(added, stops)
        if not qos:
            self._broker.settling.several([Held(delivery) for delivery in deliveries], is_awaited=False)
        elif settles_by_answer:
            self.flights.sent(owners, deliveries, stops, ids)

    def _learn(self, added: list[tuple[Source, list[Delivery]]], stops: array[int]) -> None:
        ends, part, first, first_byte = self.packets.ends(), 0, 0, 0
        for source, some in added:
            if some:
                part += len(some)
                stop = stops[part - 1]
                source.learn(stop - first, ends[stop - 1] - first_byte)
                first, first_byte = stop, ends[stop - 1]

    def _fitting(self, source: Source, deliveries: list[Delivery]) -> list[Delivery]:
        """Those that the client takes."""
        found = []
        for delivery in deliveries:
            template = source.template(delivery.unit)
            if oversized := self.packets.oversized(delivery, template, source.qos, self._broker.timeline):
                source.give_up(delivery, oversized)
                gone = set(oversized)
                delivery = delivery.picked([place for place in range(len(delivery)) if place not in gone])
            if delivery.rows:
                found.append(delivery)
        return found
