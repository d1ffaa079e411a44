"""A durable queue: publish with an acknowledgement, and publish + deliver + settle, as fast as ten connections go.

256 bytes, 10 connections with 1,000 outstanding each, 10 topics, one queue of 10 partitions without a depth limit. What
is acknowledged by Penstock is on the disk; by JetStream it is in the page cache, by mosquitto in memory or with nobody.
Each round is counted to the last message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bench.measure import Benchmark, Comparison, Run
from bench.mqtt.amqp_speech import AmqpSpeech
from bench.mqtt.ends import Consumer, Gate, Publisher
from bench.mqtt.link import PeerFailed
from bench.mqtt.load import Load, Outcome
from bench.mqtt.meter import compared
from bench.mqtt.mqtt_speech import MqttSpeech
from bench.mqtt.nats_speech import JetStreamSpeech
from bench.mqtt.peers import (
    Broker,
    running,
    start_mosquitto,
    start_nats,
    start_penstock,
    start_rabbitmq,
)
from bench.mqtt.speech import TOPICS, Speech

CONNECTIONS, WINDOW = 10, 1000
_ROUND_MS = 4000


@dataclass(frozen=True, slots=True)
class Speeches:
    """How each broker is spoken to; set up once."""

    of: dict[str, Speech]

    @classmethod
    def to(cls, brokers: Sequence[Broker], topics: int = TOPICS) -> Speeches:
        return cls({broker.name: _speech(broker, topics) for broker in brokers})


def _speech(broker: Broker, topics: int) -> Speech:
    if broker.name == "JetStream":
        return JetStreamSpeech(broker.address, CONNECTIONS * WINDOW, topics)
    if broker.name == "RabbitMQ":
        return AmqpSpeech(broker.address, queues=topics)
    return MqttSpeech(broker.address)


def publishers(speech: Speech, is_mixed: bool = False) -> list[Publisher]:
    found = []
    for number in range(CONNECTIONS):
        acks = Gate()
        found.append(Publisher(speech.publisher(number, WINDOW, is_mixed), WINDOW, (acks,), acks))
    return found


def consumers(speech: Speech) -> list[Consumer]:
    return [Consumer(speech.consumer(number, WINDOW)) for number in range(CONNECTIONS)]


def run_publish(settings: Run) -> list[Comparison]:
    duration_s = settings.size(_ROUND_MS) / 1000
    with running(settings.directory, start_penstock, start_mosquitto, start_nats) as brokers:
        speeches = Speeches.to(brokers)
        one = partial(publish, speeches, duration_s, False)
        mixed = partial(publish, speeches, duration_s, True)
        return [
            *compared(settings, brokers, one, "a publish", {"mosquitto": 3.0, "JetStream": 1.5}),
            *compared(settings, brokers[:1], mixed, "a publish, every connection to all topics", {}),
        ]


def publish(speeches: Speeches, duration_s: float, is_mixed: bool, broker: Broker) -> Outcome:
    speech = speeches.of[broker.name]
    senders = publishers(speech, is_mixed)
    load = Load(broker.server, senders)
    outcome = load.as_fast_as_possible(duration_s)
    load.close()
    sum_of_numbers = sum(sender.parts.ring.sum_of_numbers for sender in senders)
    if isinstance(speech, JetStreamSpeech):
        _check_stored(speech, outcome.messages)
    elif broker.name == "Penstock":
        _drain(broker, speech, outcome.messages, sum_of_numbers)
    return outcome


def _check_stored(speech: JetStreamSpeech, messages: int) -> None:
    if (stored := speech.stored()) != messages:
        raise PeerFailed(f"JetStream holds {stored:,} messages of {messages:,}")
    speech.purge()


def _drain(broker: Broker, speech: Speech, messages: int, sum_of_numbers: int) -> None:
    load = Load(broker.server, (), consumers(speech), fenced=True)
    load.drained(messages, sum_of_numbers)
    load.close()


def run_path(settings: Run) -> list[Comparison]:
    duration_s = settings.size(_ROUND_MS) / 1000
    with running(settings.directory, start_penstock, start_nats, start_rabbitmq) as brokers:
        through = partial(_path, Speeches.to(brokers), duration_s)
        asked = {"JetStream": 2.5, "RabbitMQ": 8.0}
        return compared(settings, brokers, through, "publish + deliver + settle", asked)


def _path(speeches: Speeches, duration_s: float, broker: Broker) -> Outcome:
    speech = speeches.of[broker.name]
    load = Load(broker.server, publishers(speech), consumers(speech), fenced=True)
    outcome = load.as_fast_as_possible(duration_s)
    load.close()
    return outcome


PUBLISH = Benchmark(
    "mqtt-durable-publish",
    "QoS 1 into a durable queue, synced before the PUBACK, against mosquitto and JetStream",
    run_publish,
)
PATH = Benchmark(
    "mqtt-durable-path", "publish + deliver + settle through a durable queue, against JetStream and RabbitMQ", run_path
)
