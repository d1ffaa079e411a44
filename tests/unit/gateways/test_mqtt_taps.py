"""Taps: live messages for those who are no MQTT session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.mqtt_gateway import RunningGateway, Setup, running

from penstock.broker.topics.taps import Tap, Taps
from penstock.codecs.mqtt.packets import Publish, Will
from penstock.core.errors import InvalidArgument
from penstock.gateways.mqtt.options import MqttOptions
from penstock.log.columns import Columns

Heard = list[tuple[bytes, bytes]]


def listener(taps: Taps, topic_filter: str, namespace: str = "default") -> tuple[Heard, Tap]:
    """Topics and payloads, copied as whoever is called has to."""
    heard: Heard = []

    def take(columns: Columns, rows: Sequence[int]) -> None:
        topics, index, source = columns.topics, columns.topic_index, columns.source
        assert topics is not None and index is not None
        for row in rows:
            topic = bytes(source[topics.starts[index[row]] : topics.ends[index[row]]])
            heard.append((topic, bytes(source[columns.value.starts[row] : columns.value.ends[row]])))

    return heard, taps.tap(namespace, topic_filter, take)


def tapped(mqtt: RunningGateway, topic_filter: str, namespace: str = "default") -> tuple[Heard, Tap]:
    return mqtt.call(lambda: listener(mqtt.broker.taps, topic_filter, namespace))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_tap_sees_what_clients_publish_to_topics_of_its_filter(mqtt: RunningGateway, qos: int) -> None:
    heard, _ = tapped(mqtt, "a/+")
    publisher = mqtt.client("p")
    for topic, payload in [("a/1", b"one"), ("b/1", b"other"), ("a/2", b"two"), ("a/2/deeper", b"below")]:
        publisher.publish(topic, payload, qos)
    publisher.ping()
    assert heard == [(b"a/1", b"one"), (b"a/2", b"two")]


def test_messages_of_one_receive_are_split_by_topic_and_keep_their_order(mqtt: RunningGateway) -> None:
    heard, _ = tapped(mqtt, "a/#")
    everything, _ = tapped(mqtt, "#")
    publisher = mqtt.client("p")
    sent = [(f"{level}/x".encode(), str(i).encode()) for i, level in enumerate("abcabc")]
    publisher.send(*[Publish(topic.decode(), payload) for topic, payload in sent])
    publisher.ping()
    assert heard == [(b"a/x", b"0"), (b"a/x", b"3")]
    assert everything == sent


def test_a_leading_wildcard_sees_no_topic_that_begins_with_a_dollar(mqtt: RunningGateway) -> None:
    heard, _ = tapped(mqtt, "#")
    queues, _ = tapped(mqtt, "$queue/#")
    publisher = mqtt.client("p")
    publisher.publish("$queue/q", b"for a queue", 1)
    publisher.publish("plain", b"for all", 1)
    assert heard == [(b"plain", b"for all")]
    assert queues == [(b"$queue/q", b"for a queue")]


def test_a_tap_hears_its_own_namespace_only(mqtt: RunningGateway) -> None:
    mine, _ = tapped(mqtt, "#")
    other, _ = tapped(mqtt, "#", "elsewhere")
    mqtt.client("p").publish("t", b"here", 1)
    assert (mine, other) == ([(b"t", b"here")], [])


def test_a_will_is_heard(mqtt: RunningGateway) -> None:
    heard, _ = tapped(mqtt, "wills/#")
    mqtt.client("p", will=Will("wills/p", b"gone")).cut()
    mqtt.until(lambda: bool(heard))
    assert heard == [(b"wills/p", b"gone")]


def test_system_topics_are_heard_without_any_subscriber(tmp_path: Path) -> None:
    with running(tmp_path, Setup(MqttOptions(sys_interval_s=0))) as mqtt:
        heard, _ = tapped(mqtt, "$SYS/broker/version")
        mqtt.wait(mqtt.gateway.system.publish())
        assert [topic for topic, _ in heard] == [b"$SYS/broker/version"]


def test_a_closed_tap_hears_nothing_and_leaves_nothing(mqtt: RunningGateway) -> None:
    heard, tap = tapped(mqtt, "t")
    publisher = mqtt.client("p")
    publisher.publish("t", b"1", 1)
    mqtt.call(tap.close)
    mqtt.call(tap.close)
    publisher.publish("t", b"2", 1)
    assert heard == [(b"t", b"1")]
    taps = mqtt.broker.taps
    assert (taps.count, taps._spaces) == (0, {})


def test_a_tap_that_fails_is_closed_and_costs_the_publisher_nothing(
    mqtt: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(columns: Columns, rows: Sequence[int]) -> None:
        raise ValueError("broken")

    mqtt.call(lambda: mqtt.broker.taps.tap("default", "t", fail))
    heard, _ = tapped(mqtt, "t")
    mqtt.client("p").publish("t", b"1", 1)
    assert heard == [(b"t", b"1")]
    assert mqtt.broker.taps.count == 1
    assert "tap closed, it failed filter=t" in caplog.text


def test_a_tap_that_another_one_closes_in_the_same_turn_is_not_called() -> None:
    taps = Taps()
    heard: list[str] = []
    opened: list[Tap] = []

    def take(columns: Columns, rows: Sequence[int]) -> None:
        heard.append("called")
        for tap in opened:
            tap.close()

    opened += [taps.tap("default", "t", take), taps.tap("default", "#", take)]
    taps.push("default", Columns.of([b"1"], topics=[b"t"]), [b"t"])
    assert heard == ["called"]


@pytest.mark.parametrize("wrong", ["", "a/#/b", "a+", "$share/g/t", "\0", "\ud800"])
def test_what_is_no_filter_is_refused_and_leaves_nothing(wrong: str) -> None:
    taps = Taps()
    with pytest.raises(InvalidArgument):
        taps.tap("default", wrong, lambda columns, rows: None)
    assert (taps.count, taps._spaces) == (0, {})
