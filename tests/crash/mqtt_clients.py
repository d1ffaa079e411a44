"""Those who publish, subscribe and consume over MQTT under fire."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import count

from tests.support.mqtt_history import Arrival, History, Receiver, Stream
from tests.support.mqtt_load import Client, Place
from tests.support.queue_history import id_of, value_of

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import PubAck, Publish, PubRec, SubAck, Subscription
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties

QUEUE = "$queue/orders"
TOPICS = ("load/a", "load/b", "both/a", QUEUE)
STATES = 4
WINDOW = 40
# Subscribers that are away have no more waiting for them than the drain at the end takes seconds for.
_BURST, _PAUSE_S = 12, 0.004
_LEAVES = 0.01


class Publisher(Client):
    """Numbered messages with QoS 1 and 2, to sessions, to a queue, to both at once; and states that are retained."""

    def __init__(self, place: Place, history: History, name: str, version: Version) -> None:
        super().__init__(place, name, version)
        self._history = history
        self.is_finishing = False
        self._numbers: dict[Stream, count[int]] = {}
        self.states: dict[str, list[int]] = {}
        """by topic: what was last acknowledged, and what was last sent; -1 for nothing, an odd number is empty"""

    @property
    def is_done(self) -> bool:
        return not self.unanswered and not self.releasing

    async def work(self) -> None:
        if self.is_finishing:
            return
        rng = self.place.rng
        for _ in range(rng.randint(1, _BURST)):
            if len(self.unanswered) + len(self.releasing) < WINDOW:
                self.publish_one(rng)
        if rng.random() < _LEAVES:
            self.leave()
        await asyncio.sleep(rng.uniform(0, _PAUSE_S))

    def publish_one(self, rng: random.Random) -> None:
        if rng.random() < 0.15:
            self._publish_state(f"state/{self.client_id}/{rng.randrange(STATES)}")
        else:
            self.publish_next(Stream(self.client_id, rng.choice(TOPICS), rng.randint(1, 2)))

    def publish_next(self, stream: Stream) -> None:
        number = next(self._numbers.setdefault(stream, count()))
        message_id = self._history.sending(stream, number)
        self.publish(stream.topic, value_of(message_id), stream.qos, False, NO_PROPERTIES)

    def publish_last(self) -> None:
        """One on each stream: what comes to a receiver after it came before it, or never."""
        for topic in TOPICS:
            for qos in (1, 2):
                self.publish_next(Stream(self.client_id, topic, qos))

    def _publish_state(self, topic: str) -> None:
        known = self.states.setdefault(topic, [-1, -1])
        known[1] += 1
        payload = b"" if known[1] % 2 else b"%d" % known[1]
        # QoS 1 could be taken again, late, after its successor; a state would go back then.
        self.publish(topic, payload, 2, True, NO_PROPERTIES)

    def acknowledged(self, message: Publish) -> None:
        if message.retain:
            self.states[message.topic][0] += 1
        else:
            self._history.acknowledged(id_of(message.payload))

    def sending_again(self, message: Publish) -> None:
        if not message.retain:
            self._history.sending_again(id_of(message.payload))


class Subscriber(Client):
    """A session with ordinary subscriptions; away now and then."""

    def __init__(
        self,
        place: Place,
        receiver: Receiver,
        history: History,
        version: Version,
        subscriptions: Sequence[Subscription],
        *,
        receive_maximum: int | None = None,
        properties: Properties = NO_PROPERTIES,
    ) -> None:
        super().__init__(place, receiver.name, version, receive_maximum)
        self._receiver, self._history = receiver, history
        self._subscriptions, self._properties = subscriptions, properties
        self._asked_over = 0
        self.is_subscribed = False
        self.stays = False
        self._sent_again: set[str] = set()

    async def work(self) -> None:
        if not self.is_subscribed and self._asked_over != self.connection:
            self._asked_over = self.connection
            self.subscribe(*self._subscriptions, properties=self._properties)
        if self.is_subscribed and not self.stays and self.place.rng.random() < _LEAVES:
            self.leave()

    def subscribed(self, answer: SubAck) -> None:
        self.is_subscribed = True

    def arrived(self, message: Publish) -> None:
        places = message.properties.user_values("message-id")
        message_id, place = id_of(message.payload), places[0] if places else ""
        self._history.arrived(self._receiver, Arrival(message_id, self.connection, message.qos, message.dup, place))


class ExplicitConsumer(Subscriber):
    """Settles what it got with a publish of its own, which is acknowledged."""

    def arrived(self, message: Publish) -> None:
        super().arrived(message)
        named = tuple(pair for pair in message.properties.user_properties if pair[0] == "message-id")
        if self.place.rng.random() < 0.9:
            self.publish(f"{QUEUE}/$ack", named[0][1].encode(), 1, False, Properties(user_properties=named))

    def acknowledged(self, message: Publish) -> None:
        place = message.payload.decode()
        self._history.settled(self._receiver, place, self.connection if place in self._sent_again else -1)

    def sending_again(self, message: Publish) -> None:
        self._sent_again.add(message.payload.decode())

    def refused(self, message: Publish, answer: PubAck | PubRec) -> None:
        """The delivery was another connection's, and the message is there again: that one is settled."""


def consumer_terms(group: str, ack_mode: str) -> Properties:
    return Properties(user_properties=(("consumer-group", group), ("ack-mode", ack_mode), ("prefetch", "50")))


def publishers(place: Place, history: History) -> list[Publisher]:
    versions = (Version.V3_1_1, Version.V5, Version.V5)
    return [Publisher(place, history, f"p{number}", version) for number, version in enumerate(versions)]


def subscribers(place: Place, history: History) -> list[Subscriber]:
    def made(name: str, version: Version, qos: int, receive_maximum: int | None = None) -> Subscriber:
        subscriptions = [Subscription("load/+", qos), Subscription("both/#", qos)]
        receiver = history.receiver(name, "load/", "both/")
        return Subscriber(place, receiver, history, version, subscriptions, receive_maximum=receive_maximum)

    return [
        made("s-old", Version.V3_1_1, 2),
        made("s-few", Version.V5, 2, 7),
        made("s-many", Version.V5, 2),
        made("s-one", Version.V5, 1, 20),
    ]


def consumers(place: Place, history: History) -> list[Subscriber]:
    def queue(name: str) -> Receiver:
        return history.receiver(name, QUEUE, is_queue=True)

    old, both = [Subscription(f"$share/old/{QUEUE}", 1)], [Subscription("$share/durable/both/#", 1)]
    durable = Properties(user_properties=(("durable", "true"), ("ack-mode", "puback")))
    of_both = history.receiver("c-both", "both/", is_queue=True)
    return [
        Subscriber(place, queue("c-old"), history, Version.V3_1_1, old),
        Subscriber(
            place,
            queue("c-answers"),
            history,
            Version.V5,
            [Subscription(QUEUE, 1)],
            properties=consumer_terms("answers", "puback"),
            receive_maximum=30,
        ),
        ExplicitConsumer(
            place,
            queue("c-settles"),
            history,
            Version.V5,
            [Subscription(QUEUE, 1)],
            properties=consumer_terms("settles", "explicit"),
        ),
        Subscriber(place, of_both, history, Version.V5, both, properties=durable),
        Subscriber(place, queue("c-twice"), history, Version.V3_1_1, [Subscription(f"$share/twice/{QUEUE}", 2)]),
    ]
