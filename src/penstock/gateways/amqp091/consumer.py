"""A consumer: messages of a group, sent to one channel."""

from __future__ import annotations

from array import array
from time import monotonic
from typing import Protocol

from penstock.broker.broker import Broker
from penstock.broker.feed.competing import Competitor
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.delivery_frames import DeliveryFrames
from penstock.gateways.amqp091.routes import Routes
from penstock.gateways.wire.outbox import Outbox
from penstock.kernels.amqp_deliver import deliveries
from penstock.kernels.amqp_turn import standing

# Asked for before it is known how large messages of the queue are.
_FIRST_MESSAGES = 64
_MOST_MESSAGES = 10_000
_TOO_LONG = "its properties are longer than the consumer's frames"


class Owner(Protocol):
    """Who began it for a client, and hears what becomes of it."""

    def left(self, consumer: Consumer) -> None:
        """It is handed nothing more."""

    def dismissed(self, consumer: Consumer) -> None:
        """The queue or the group was deleted while the client consumed it."""

    def broke(self, consumer: Consumer, error: BaseException) -> None:
        """It has stopped."""


class Consumer:
    """An outlet. Without acknowledgements, sending settles."""

    def __init__(
        self,
        broker: Broker,
        channel: Channel,
        outbox: Outbox,
        competitor: Competitor,
        tag: str,
        frame_max: int,
        needs_no_ack: bool,
        routes: Routes,
        owner: Owner,
    ) -> None:
        self._channel, self._outbox, self.competitor, self.tag = channel, outbox, competitor, tag
        self.needs_no_ack, self._owner, self._settling = needs_no_ack, owner, broker.settling
        encoder = deliveries(channel.number, tag.encode(), frame_max)
        self._frames = DeliveryFrames(encoder, routes, broker.timeline)
        self._at_once = _FIRST_MESSAGES
        """so many messages that they are not larger than what the client may leave lying"""
        self._is_cancelled = False
        self.sent = 0
        self._feed = broker.feed(competitor, self)

    @property
    def holds(self) -> int:
        return self.competitor.held

    def room(self) -> int:
        if self._is_cancelled or self._outbox.is_paused or self._outbox.waiting_bytes > self._outbox.limit_bytes:
            return 0
        return self._at_once if self.needs_no_ack else min(self._at_once, self._channel.room)

    def send(self, deliveries: list[Delivery]) -> int:
        taken = size = count = 0
        for delivery in deliveries:
            if size > self._outbox.limit_bytes:
                break
            size += self._send(delivery)
            count += len(delivery)
            taken += 1
        self.sent += count
        self._at_once = max(1, min(_MOST_MESSAGES, self._outbox.limit_bytes * count // (size + 1)))
        return taken

    def _send(self, delivery: Delivery) -> int:
        tags = self._channel.tags
        data = self._frames.encode(delivery, tags.next)
        if self.needs_no_ack:
            tags.skip(len(delivery))
            self._settling.ack(Held(delivery), is_awaited=False)
        else:
            first = tags.add(delivery, self, monotonic())
            if too_long := _left_out(self._frames.encoder.ends()):
                for place in too_long:
                    tags.take(first + place, first + place, [])
                self._settling.reject(Held(delivery, too_long), _TOO_LONG)
        self._outbox.write(data)
        return len(data)

    def pump(self) -> None:
        """The client may take more."""
        self._feed.has_room()

    def cancel(self) -> None:
        """Nothing more is sent. What the client was sent is still its own."""
        self._is_cancelled = True
        self._feed.stop()
        self.competitor.retire()
        self._owner.left(self)

    def leave(self) -> None:
        was_there, self._is_cancelled = not self._is_cancelled, True
        self._feed.close(counted=False)
        if was_there:
            self._owner.left(self)

    def dismissed(self) -> None:
        self._owner.dismissed(self)

    def broke(self, error: BaseException) -> None:
        self._owner.broke(self, error)


def _left_out(ends: array[int]) -> list[int]:
    """Places of messages that were not encoded."""
    if not standing(ends):
        return []
    return [place for place, end in enumerate(ends) if end == (ends[place - 1] if place else 0)]
