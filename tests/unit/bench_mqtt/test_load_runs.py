"""Loads against a small server: all is counted, and what gets lost is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import bench.mqtt.load
import pytest
from bench.measure import Run
from bench.mqtt.ends import Consumer, Gate, PacedPublisher, Publisher
from bench.mqtt.link import PeerFailed
from bench.mqtt.load import Load, Outcome
from bench.mqtt.meter import Usage, compared
from bench.mqtt.mqtt_speech import MqttSpeech
from bench.mqtt.peers import Broker, running
from bench.mqtt.servers import Absent, Server
from tests.support.tiny_mqtt import tiny_broker

_SHORT_S = 0.05


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A process to look at; the small broker itself is a thread of the test."""
    server = Server("sleep", ["sleep", "60"], tmp_path)
    yield server
    server.stop()


def _acknowledged(speech: MqttSpeech, number: int, window: int = 10) -> Publisher:
    acks = Gate()
    return Publisher(speech.publisher(number, window), window, (acks,), acks)


def test_all_that_was_published_is_acknowledged_and_delivered(server: Server) -> None:
    with tiny_broker() as address:
        speech = MqttSpeech(address)
        consumer = Consumer(speech.consumer(0, 10))
        load = Load(server, [_acknowledged(speech, number) for number in range(2)], [consumer], fenced=True)
        outcome = load.as_fast_as_possible(_SHORT_S)
        load.close()
    assert outcome.messages == consumer.received > 0
    assert outcome.seconds >= _SHORT_S


def test_a_lost_message_fails_the_run(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.mqtt.load, "_STALLED_S", 0.2)
    with tiny_broker(forgets=3) as address:
        speech = MqttSpeech(address)
        load = Load(server, [_acknowledged(speech, 0)], [Consumer(speech.consumer(0, 10))])
        with pytest.raises(PeerFailed, match="nothing came"):
            load.as_fast_as_possible(_SHORT_S)
        load.close()


def test_another_message_than_was_sent_fails_the_run(server: Server) -> None:
    with tiny_broker() as address:
        speech = MqttSpeech(address)
        load = Load(server, [publisher := _acknowledged(speech, 0)], [Consumer(speech.consumer(0, 10))])
        publisher.parts.ring.sum_of_numbers = 1
        with pytest.raises(PeerFailed, match="other messages"):
            load.as_fast_as_possible(_SHORT_S)
        load.close()


def test_a_publisher_without_acknowledgements_waits_for_all_subscribers(server: Server) -> None:
    with tiny_broker() as address:
        speech, arrived = MqttSpeech(address), Gate(share=3)
        receivers = [Consumer(speech.subscriber(n, "live/#", 0), arrived, checked=n == 0) for n in range(3)]
        publisher = Publisher(speech.to_topics(0, ["live/t0"], 0, 5), 5, (arrived,), None)
        load = Load(server, [publisher], receivers, copies=3)
        outcome = load.as_fast_as_possible(_SHORT_S)
        load.close()
    assert [receiver.received for receiver in receivers] == [outcome.messages] * 3


def test_with_a_window_of_one_a_message_goes_when_the_last_is_done(server: Server) -> None:
    with tiny_broker() as address:
        speech, arrived, acks = MqttSpeech(address), Gate(), Gate()
        receiver = Consumer(speech.subscriber(0, "live/t0", 1), arrived)
        publisher = Publisher(speech.to_topics(0, ["live/t0"], 1, 1), 1, (acks, arrived), acks)
        load = Load(server, [publisher], [receiver])
        outcome = load.as_fast_as_possible(_SHORT_S)
        load.close()
    assert outcome.messages == receiver.received == acks.passed > 0


def test_a_paced_load_offers_the_rate_and_times_every_message(server: Server) -> None:
    with tiny_broker() as address:
        speech = MqttSpeech(address)
        senders = [PacedPublisher(speech.publisher(number, 10), 10, Gate()) for number in range(2)]
        receiver = Consumer(speech.consumer(0, 10), timed=True)
        load = Load(server, senders, [receiver])
        outcome = load.at_rate(1000, 0.1)
        load.close()
    assert outcome.messages == len(receiver.latencies_ns) == 100
    assert [len(sender.latencies_ns) for sender in senders] == [50, 50]
    assert min(receiver.latencies_ns) > 0


def test_what_is_stored_is_drained_and_counted(server: Server) -> None:
    with tiny_broker() as address:
        speech = MqttSpeech(address)
        drain = Load(server, (), [Consumer(speech.consumer(0, 10))])
        publish = Load(server, [publisher := _acknowledged(speech, 0)])
        messages = publish.as_fast_as_possible(_SHORT_S).messages
        assert drain.drained(messages, publisher.parts.ring.sum_of_numbers).messages == messages
        publish.close()
        drain.close()


def test_a_generator_that_is_the_bottleneck_says_so() -> None:
    assert "BOTTLENECK" in Usage([0.95], [0.5], [1e-6]).text()
    assert "BOTTLENECK" not in Usage([0.95], [1.2], [1e-6]).text()
    assert "BOTTLENECK" not in Usage([0.4], [0.5], [1e-6]).text()


def test_a_peer_that_is_not_installed_is_said_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def start_nobody(directory: Path) -> Broker:
        raise Absent("nobody is not installed")

    with running(tmp_path, start_nobody) as brokers:
        assert brokers == []
    assert "LEFT OUT: nobody is not installed" in capsys.readouterr().out


def test_each_peer_is_compared_in_every_round(server: Server, tmp_path: Path) -> None:
    brokers = [Broker(name, ("127.0.0.1", 1), server) for name in ("mine", "theirs")]
    taken = {"mine": Outcome(100, 1.0, 0.5, 0.5), "theirs": Outcome(100, 3.0, 0.5, 0.5)}
    [found] = compared(Run(tmp_path), brokers, lambda broker: taken[broker.name], "publish", {"theirs": 2.0})
    assert found.ratio is not None
    assert (round(found.ratio.median, 6), found.is_met, len(found.subject.samples)) == (3.0, True, 5)
    assert found.notes["a second"] == "100 against 33"


def test_what_is_asked_whatever_the_others_do_has_rows_of_its_own(server: Server, tmp_path: Path) -> None:
    broker = Broker("mine", ("127.0.0.1", 1), server)
    taken = Outcome(100, 1.0, 0.5, 0.5)
    shown, rate, cpu = compared(Run(tmp_path), [broker], lambda _: taken, "publish", {}, a_second=50, cpu_s=1e-3)
    assert shown.baseline is None
    assert rate.ratio is not None
    assert cpu.ratio is not None
    assert (round(rate.ratio.median, 6), rate.is_met) == (2.0, True)
    assert (round(cpu.ratio.median, 6), cpu.is_met) == (5.0, False)
