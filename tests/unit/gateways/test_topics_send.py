"""Messages that other gateways publish by topic: whom they reach, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.mqtt_gateway import V3, RunningGateway, Setup, consumer, running

from penstock.broker.topics.topics import TopicOptions
from penstock.core.errors import InvalidArgument, QueueFull
from penstock.gateways.mqtt.options import MqttOptions
from penstock.log.columns import Columns
from penstock.queues.properties import Envelope, pack


def send(
    mqtt: RunningGateway,
    *messages: tuple[str, bytes],
    qos: int = 1,
    retain: bool = False,
    headers: Sequence[bytes] | None = None,
    namespace: str = "default",
) -> int:
    topics = [topic.encode("utf-8", "surrogatepass") for topic, _ in messages]
    columns = Columns.of([value for _, value in messages], topics=topics, properties=headers)
    publisher = mqtt.broker.publisher()
    return mqtt.wait(mqtt.topics.send(columns, qos=qos, retain=retain, publisher=publisher, namespace=namespace))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_subscribers_get_it_with_the_lower_qos_and_its_headers(mqtt: RunningGateway, qos: int) -> None:
    subscriber, old = mqtt.client("s"), mqtt.client("v3", V3)
    subscriber.subscribe("t/#", qos=1)
    old.subscribe("t/1", qos=2)
    headers = [pack(Envelope((("trace", "7"),), "text/plain"))]
    assert send(mqtt, ("t/1", b"hello"), qos=qos, headers=headers) == 1
    message = subscriber.expect_message()
    assert (message.topic, message.payload, message.qos) == ("t/1", b"hello", min(qos, 1))
    assert (message.properties.content_type, message.properties.user_properties) == ("text/plain", (("trace", "7"),))
    assert old.expect_message().qos == qos


def test_it_counts_the_rows_that_reached_somebody(mqtt: RunningGateway) -> None:
    subscriber = mqtt.client("s")
    subscriber.subscribe("a", "b/#")
    mqtt.declare("q", topics=["c/#"])
    assert send(mqtt, ("a", b"1"), ("nobody", b"2"), ("b/1", b"3"), ("c/1", b"4"), ("nobody", b"5"), ("a", b"6")) == 4
    assert send(mqtt, ("nobody", b"7")) == 0
    subscriber.expect_payloads([b"1", b"3", b"6"])


def test_an_event_stream_counts_as_somebody(mqtt: RunningGateway) -> None:
    mqtt.call(lambda: mqtt.broker.taps.tap("default", "t", lambda columns, rows: None))
    assert send(mqtt, ("t", b"1"), ("u", b"2")) == 1


def test_sessions_that_are_away_get_it_when_they_come_back(mqtt: RunningGateway) -> None:
    away = mqtt.lasting("away")
    away.subscribe("t", qos=1)
    away.disconnect()
    mqtt.left_with(0)
    assert send(mqtt, ("t", b"kept")) == 1
    assert send(mqtt, ("t", b"not kept"), qos=0) == 0
    mqtt.lasting("away").expect_payloads([b"kept"])


def test_one_member_of_a_shared_subscription_gets_it(mqtt: RunningGateway) -> None:
    members = [mqtt.client(name) for name in ("a", "b")]
    for member in members:
        member.subscribe("$share/g/t", qos=1)
    assert send(mqtt, ("t", b"1"), ("t", b"2")) == 2
    assert sorted(member.expect_message().payload for member in members) == [b"1", b"2"]


def test_retained_is_sent_to_those_who_come_later(mqtt: RunningGateway) -> None:
    assert send(mqtt, ("t", b"last"), retain=True) == 0
    late = mqtt.client("late")
    late.subscribe("t", qos=1)
    message = late.expect_message()
    assert (message.payload, message.retain) == (b"last", True)


def test_queues_get_it_by_binding_and_by_name(mqtt: RunningGateway) -> None:
    mqtt.declare("bound", topics=["orders/#"])
    assert send(mqtt, ("orders/1", b"1"), ("$queue/made", b"2")) == 2
    assert (mqtt.messages_in("bound"), mqtt.messages_in("made")) == (1, 1)
    consumer(mqtt, filter="$queue/bound").expect_payloads([b"1"])


def test_other_namespaces_hear_nothing(mqtt: RunningGateway) -> None:
    mqtt.client("s").subscribe("t")
    assert send(mqtt, ("t", b"1"), namespace="elsewhere") == 0


def test_a_queue_that_is_full_refuses_all_of_it(mqtt: RunningGateway) -> None:
    mqtt.declare("q", topics=["c"], limits={"max_queue_depth": 1})
    consumer(mqtt).close()
    subscriber = mqtt.client("s")
    subscriber.subscribe("#")
    with pytest.raises(QueueFull):
        send(mqtt, ("a", b"1"), ("c", b"2"), ("c", b"3"))
    assert send(mqtt, ("a", b"4")) == 1
    subscriber.expect_payloads([b"4"])
    assert mqtt.messages_in("q") == 0


@pytest.mark.parametrize(
    "topic", ["", "a/#", "+", "$SYS/broker/x", "$share/g/t", "$admin/queue/q/purge", "$queue/q/$ack", "a\0", "\ud800"]
)
def test_what_nobody_can_publish_to_is_refused(mqtt: RunningGateway, topic: str) -> None:
    with pytest.raises(InvalidArgument):
        send(mqtt, ("fine", b"1"), (topic, b"2"))


def test_a_qos_that_is_none_and_messages_without_topics_are_refused(mqtt: RunningGateway) -> None:
    with pytest.raises(InvalidArgument, match="3 is not a QoS"):
        send(mqtt, ("t", b"1"), qos=3)
    bare, publisher = Columns.of([b"1"]), mqtt.broker.publisher()
    with pytest.raises(InvalidArgument, match="a topic for each"):
        mqtt.wait(mqtt.topics.send(bare, qos=0, retain=False, publisher=publisher))


def test_what_the_options_take_away_is_not_there_for_other_gateways_either(tmp_path: Path) -> None:
    options = MqttOptions(sys_interval_s=0, retain_available=False, maximum_qos=1)
    with running(tmp_path, Setup(options, TopicOptions(retain_available=False))) as mqtt:
        with pytest.raises(InvalidArgument, match="retain_available"):
            send(mqtt, ("t", b"1"), retain=True)
        subscriber = mqtt.client("s")
        subscriber.subscribe("t", qos=1)
        assert send(mqtt, ("t", b"1"), qos=2) == 1
        assert subscriber.expect_message().qos == 1
