"""Publish and subscribe without queues, against mosquitto: one to one, one to many, one message at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.measure import Benchmark, Comparison, Run
from bench.mqtt.ends import Consumer, Gate, Publisher
from bench.mqtt.load import Load, Outcome
from bench.mqtt.meter import compared
from bench.mqtt.mqtt_speech import MqttSpeech, topic
from bench.mqtt.peers import Broker, Start, running, start_mosquitto, start_penstock, start_prompt_mosquitto
from bench.mqtt.speech import TOPICS

_PAIRS, _WINDOW = 10, 1000
_ROUND_MS = 4000
# No queue is bound to it.
_PREFIX = "live"
# Of a thousand subscribers these look at every number; the others count, or the generator would be measured.
_CHECKED_EVERY = 50
# Deliveries on their way in a fan-out: 1,000 messages to 100, 100 to 1,000.
_FAN_OUT_WINDOW = 100_000


def run_one_to_one(settings: Run) -> list[Comparison]:
    return _against_mosquitto(settings, _one_to_one, "a message, QoS 0, 10 pairs", 2.0)


def run_window_1(settings: Run) -> list[Comparison]:
    subject = "a message, QoS 1, one pair, one at a time"
    return _against_mosquitto(settings, _one_by_one, subject, 0.7, peer=start_prompt_mosquitto)


def run_fan_out(settings: Run) -> list[Comparison]:
    found = []
    for subscribers in (100, 1000):
        run, subject = partial(_fan_out, subscribers), f"a message, QoS 0 to {subscribers:,} subscribers"
        found += _against_mosquitto(settings, run, subject, 1.0, subscribers)
    return found


def _against_mosquitto(
    settings: Run,
    run: Callable[[float, Broker], Outcome],
    subject: str,
    asked: float,
    copies: int = 1,
    peer: Start = start_mosquitto,
) -> list[Comparison]:
    directory, duration_s = settings.directory / f"to-{copies}", settings.size(_ROUND_MS) / 1000
    directory.mkdir()
    with running(directory, start_penstock, peer) as brokers:
        return compared(settings, brokers, partial(run, duration_s), subject, {"mosquitto": asked}, copies)


def _one_to_one(duration_s: float, broker: Broker) -> Outcome:
    """A publisher has at most 1,000 messages on their way to its subscriber: none is dropped."""
    speech, senders, receivers = MqttSpeech(broker.address), [], []
    for number in range(_PAIRS):
        arrived = Gate()
        receivers.append(Consumer(speech.subscriber(number, topic(number, _PREFIX), 0), arrived))
        parts = speech.to_topics(number, [topic(number, _PREFIX)], 0, _WINDOW)
        senders.append(Publisher(parts, _WINDOW, (arrived,), None))
    return _run(Load(broker.server, senders, receivers), duration_s)


def _one_by_one(duration_s: float, broker: Broker) -> Outcome:
    """The next message goes when the last is both acknowledged and there."""
    speech, arrived, acknowledged = MqttSpeech(broker.address), Gate(), Gate()
    receiver = Consumer(speech.subscriber(0, topic(0, _PREFIX), 1), arrived)
    parts = speech.to_topics(0, [topic(0, _PREFIX)], 1, 1)
    return _run(
        Load(broker.server, [Publisher(parts, 1, (acknowledged, arrived), acknowledged)], [receiver]), duration_s
    )


def _fan_out(subscribers: int, duration_s: float, broker: Broker) -> Outcome:
    speech, arrived, window = MqttSpeech(broker.address), Gate(share=subscribers), _FAN_OUT_WINDOW // subscribers
    receivers = [
        Consumer(parts, arrived, checked=number % _CHECKED_EVERY == 0)
        for number, parts in enumerate(speech.subscribers(subscribers, f"{_PREFIX}/#", 0))
    ]
    parts = speech.to_topics(0, [topic(number, _PREFIX) for number in range(TOPICS)], 0, window)
    return _run(
        Load(broker.server, [Publisher(parts, window, (arrived,), None)], receivers, copies=subscribers), duration_s
    )


def _run(load: Load, duration_s: float) -> Outcome:
    outcome = load.as_fast_as_possible(duration_s)
    load.close()
    return outcome


ONE_TO_ONE = Benchmark(
    "mqtt-one-to-one", "publish and subscribe with QoS 0, ten to ten, against mosquitto", run_one_to_one, syncs=False
)
FAN_OUT = Benchmark(
    "mqtt-fan-out", "one publisher to 100 and to 1,000 subscribers, against mosquitto", run_fan_out, syncs=False
)
WINDOW_1 = Benchmark(
    "mqtt-window-1", "one message at a time from end to end, against mosquitto", run_window_1, syncs=False
)
