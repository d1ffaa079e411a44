"""AMQP 0.9.1 against RabbitMQ: persistent messages of 256 bytes to durable queues, with confirms, by the same client.

What Penstock confirms is on the disk; RabbitMQ's classic queues sync now and then. Each round is counted to the last
message."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bench.measure import Benchmark, Comparison, Run
from bench.mqtt.amqp_speech import AmqpSpeech
from bench.mqtt.durable import CONNECTIONS, WINDOW
from bench.mqtt.ends import Consumer, Gate, Publisher
from bench.mqtt.load import Load, Outcome
from bench.mqtt.meter import compared
from bench.mqtt.peers import Broker, running, serve_penstock, start_rabbitmq

_ROUND_MS = 4000
_PEER = "RabbitMQ"


def start_penstock_amqp(directory: Path) -> Broker:
    server, addresses = serve_penstock(directory, "{}", "amqp")
    return Broker("Penstock", addresses["amqp"], server)


def _publishers(speech: AmqpSpeech, connections: int, window: int) -> list[Publisher]:
    found = []
    for number in range(connections):
        acks = Gate()
        found.append(Publisher(speech.publisher(number, window), window, (acks,), acks))
    return found


def _published(
    speeches: dict[str, AmqpSpeech], connections: int, window: int, seconds: float, broker: Broker
) -> Outcome:
    """What was stored is taken out again, outside the time."""
    speech = speeches[broker.name]
    senders = _publishers(speech, connections, window)
    load = Load(broker.server, senders)
    outcome = load.as_fast_as_possible(seconds)
    load.close()
    taking = Load(broker.server, (), _consumers(speech, connections), fenced=True)
    taking.drained(outcome.messages, sum(sender.parts.ring.sum_of_numbers for sender in senders))
    taking.close()
    return outcome


def _consumers(speech: AmqpSpeech, connections: int) -> list[Consumer]:
    return [Consumer(speech.consumer(number, WINDOW)) for number in range(connections)]


def _through(speeches: dict[str, AmqpSpeech], seconds: float, broker: Broker) -> Outcome:
    speech = speeches[broker.name]
    load = Load(broker.server, _publishers(speech, CONNECTIONS, WINDOW), _consumers(speech, CONNECTIONS), fenced=True)
    outcome = load.as_fast_as_possible(seconds)
    load.close()
    return outcome


def _run_publish(settings: Run) -> list[Comparison]:
    found, seconds = [], settings.size(_ROUND_MS) / 1000
    for queues, text in ((1, "one queue"), (10, "ten queues")):
        directory = settings.directory / f"publish-{queues}"
        directory.mkdir()
        with running(directory, start_penstock_amqp, start_rabbitmq) as brokers:
            speeches = {broker.name: AmqpSpeech(broker.address, queues=queues) for broker in brokers}
            run = partial(_published, speeches, CONNECTIONS, WINDOW, seconds)
            found += compared(settings, brokers, run, f"a publish with its confirm, {text}", {_PEER: 20.0})
    return found


def _run_path(settings: Run) -> list[Comparison]:
    found, seconds = [], settings.size(_ROUND_MS) / 1000
    for queues, text, target in ((1, "one queue", 8.0), (10, "ten queues", 10.0)):
        directory = settings.directory / f"path-{queues}"
        directory.mkdir()
        with running(directory, start_penstock_amqp, start_rabbitmq) as brokers:
            speeches = {broker.name: AmqpSpeech(broker.address, queues=queues) for broker in brokers}
            run = partial(_through, speeches, seconds)
            found += compared(settings, brokers, run, f"publish + deliver + ack, {text}", {_PEER: target})
    return found


def _run_window_1(settings: Run) -> list[Comparison]:
    seconds = settings.size(_ROUND_MS) / 1000
    with running(settings.directory, start_penstock_amqp, start_rabbitmq) as brokers:
        speeches = {broker.name: AmqpSpeech(broker.address, queues=1) for broker in brokers}
        run = partial(_published, speeches, 1, 1, seconds)
        return compared(settings, brokers, run, "a publish with its confirm, one at a time", {_PEER: 3.0})


PUBLISH = Benchmark(
    "amqp-publish", "persistent publishes with confirms into durable queues, against RabbitMQ", _run_publish
)
PATH = Benchmark("amqp-path", "publish + deliver + ack through durable queues, against RabbitMQ", _run_path)
WINDOW_1 = Benchmark("amqp-window-1", "one persistent publish at a time, against RabbitMQ", _run_window_1)
BENCHMARKS = (PUBLISH, PATH, WINDOW_1)
