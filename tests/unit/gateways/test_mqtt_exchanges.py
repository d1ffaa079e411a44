"""Exchanges over MQTT: publishing to them, what publishers are told, and the space of topics that amq.topic is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.mqtt_gateway import V3, RunningGateway, Setup, consumer, running, user

from penstock.broker.auth.options import AuthOptions
from penstock.broker.auth.rules import Action, Effect, rule
from penstock.codecs.mqtt.packets import PubAck, Publish, PubRec
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import Exchange

DONE, UNROUTED, NO_TOPIC = ReasonCode.SUCCESS, ReasonCode.NO_MATCHING_SUBSCRIBERS, ReasonCode.TOPIC_NAME_INVALID


def declare(mqtt: RunningGateway, name: str, type: str, **more: object) -> None:
    mqtt.wait(mqtt.broker.exchanges.declare("default", Exchange(name, type, **more)))  # type: ignore[arg-type]


def bind(mqtt: RunningGateway, source: str, queue: str, key: str = "", **arguments: str) -> None:
    mqtt.wait(mqtt.broker.exchanges.bind("default", source, Destination("queue", queue), key, arguments))


def reasons(mqtt: RunningGateway, *packets: Publish) -> list[ReasonCode]:
    client = mqtt.client("publisher")
    client.send(*packets)
    found = []
    for _ in packets:
        answer = client.receive()
        assert isinstance(answer, PubAck | PubRec)
        found.append(answer.reason)
    return found


def test_a_publish_to_an_exchange_reaches_the_queues_that_are_bound(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    declare(mqtt, "logs", "topic")
    bind(mqtt, "logs", "q", "eu.*")
    member = consumer(mqtt, "q")
    packets = [
        Publish(f"$exchange/logs/{key}", key.encode(), 1, packet_id=number)
        for number, key in enumerate(("eu/1", "us/1", "eu/2"), 1)
    ]
    assert reasons(mqtt, *packets) == [DONE, UNROUTED, DONE]
    found = [member.expect_message() for _ in range(2)]
    assert [(message.topic, message.payload) for message in found] == [
        ("$exchange/logs/eu/1", b"eu/1"),
        ("$exchange/logs/eu/2", b"eu/2"),
    ]


def test_publishers_are_told_that_nobody_gets_it_or_that_there_is_no_such_exchange(mqtt: RunningGateway) -> None:
    declare(mqtt, "inner", "fanout", internal=True)
    mqtt.declare("orders")
    packets = [
        Publish("$exchange/nowhere/k", b"m", 1, packet_id=1),
        Publish("$exchange//orders", b"m", 1, packet_id=2),
        Publish("$exchange//nobody", b"m", 1, packet_id=3),
        Publish("$exchange/inner/k", b"m", 1, packet_id=4),
        Publish("$exchange/%6dine/k", b"m", 1, packet_id=5),
        Publish("$exchange/amq.topic/nobody", b"m", 1, packet_id=6),
        Publish("ordinary", b"m", 1, packet_id=7),
    ]
    assert reasons(mqtt, *packets) == [NO_TOPIC, DONE, UNROUTED, ReasonCode.NOT_AUTHORIZED, NO_TOPIC, UNROUTED, DONE]
    assert reasons(mqtt, Publish("$exchange//nobody", b"m", 2, packet_id=8)) == [UNROUTED]


def test_clients_of_3_1_1_are_not_told_and_go_on(mqtt: RunningGateway) -> None:
    client = mqtt.client("old", V3)
    client.publish("$exchange/amq.fanout/k", b"m", 1)
    client.ping()


def test_each_message_goes_where_its_user_properties_say(mqtt: RunningGateway) -> None:
    for name in ("red", "blue"):
        mqtt.declare(name)
        bind(mqtt, "amq.headers", name, colour=name)
    packets = [
        Publish("$exchange/amq.headers", colour.encode(), 1, packet_id=number, properties=user(colour=colour))
        for number, colour in enumerate(("red", "blue", "green", "red"), 1)
    ]
    assert reasons(mqtt, *packets) == [DONE, DONE, UNROUTED, DONE]
    consumer(mqtt, "r", filter="$queue/red").expect_payloads([b"red", b"red"])
    consumer(mqtt, "b", filter="$queue/blue").expect_payloads([b"blue"])


def test_what_asks_for_a_delay_is_refused_by_name(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    declare(mqtt, "later", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    bind(mqtt, "later", "q", "k")
    client = mqtt.client("p")
    for name in ("x-delay", "delay"):
        client.send(Publish("$exchange/later/k", b"m", 1, packet_id=1, properties=user((name, "5000"))))
        answer = client.receive()
        assert isinstance(answer, PubAck)
        assert answer.reason is not DONE
        assert f"{name} is not in this version" in (answer.properties.reason_string or "")
    client.send(Publish("$exchange/later/k", b"m", 1, packet_id=1))
    answer = client.receive()
    assert isinstance(answer, PubAck)
    assert answer.reason is DONE


def test_what_is_for_the_topic_exchange_is_an_ordinary_topic_and_never_retained(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    bind(mqtt, "amq.topic", "q", "a.*")
    bind(mqtt, "amq.topic", "q", "#.x.#")
    away, here = mqtt.lasting("away"), mqtt.client("here")
    away.subscribe("a/#", qos=1)
    here.subscribe("a/#", qos=1)
    away.disconnect()
    mqtt.left_with(1)
    packets = [
        Publish("$exchange/amq.topic/a/b", b"exchange", 1, packet_id=1, retain=True),
        Publish("a/c", b"topic", 1, packet_id=2),
        Publish("$exchange/amq.topic/y/x/z", b"middle", 1, packet_id=3),
    ]
    assert reasons(mqtt, *packets) == [DONE] * 3
    found = [here.expect_message() for _ in range(2)]
    assert [(message.topic, message.payload) for message in found] == [("a/b", b"exchange"), ("a/c", b"topic")]
    mqtt.lasting("away").expect_payloads([b"exchange", b"topic"])
    member = consumer(mqtt, "member")
    topics = [member.expect_message().topic for _ in range(3)]
    assert topics == ["a/b", "a/c", "y/x/z"]
    late = mqtt.client("late")
    late.subscribe("a/#", qos=1)
    late.ping()


def test_topics_reach_exchanges_that_are_bound_to_the_topic_exchange(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    declare(mqtt, "x", "headers")
    mqtt.wait(mqtt.broker.exchanges.bind("default", "amq.topic", Destination("exchange", "x"), "a.#"))
    bind(mqtt, "x", "q", k="v")
    packets = [
        Publish("a/b", b"yes", 1, packet_id=1, properties=user(k="v")),
        Publish("a/b", b"no", 1, packet_id=2),
        Publish("b", b"no", 1, packet_id=3, properties=user(k="v")),
    ]
    assert reasons(mqtt, *packets) == [DONE] * 3
    consumer(mqtt, "q").expect_payloads([b"yes"])


@pytest.mark.parametrize("is_new", [True, False])
def test_routes_change_with_the_bindings(mqtt: RunningGateway, is_new: bool) -> None:
    mqtt.declare("q")
    if not is_new:
        bind(mqtt, "amq.direct", "q", "k")
        assert reasons(mqtt, Publish("$exchange/amq.direct/k", b"m", 1, packet_id=1)) == [DONE]
        mqtt.wait(mqtt.broker.exchanges.unbind("default", "amq.direct", Destination("queue", "q"), "k"))
    assert reasons(mqtt, Publish("$exchange/amq.direct/k", b"m", 1, packet_id=1)) == [UNROUTED]
    bind(mqtt, "amq.direct", "q", "k")
    assert reasons(mqtt, Publish("$exchange/amq.direct/k", b"m", 1, packet_id=1)) == [DONE]


def test_rights_are_about_the_exchange_and_what_it_is_a_way_to(tmp_path: Path) -> None:
    def allow(pattern: str, effect: Effect = Effect.ALLOW) -> object:
        return rule(effect, Action.PUBLISH, pattern)

    rules = (
        allow("$exchange/#"),
        allow("#"),
        allow("$queue/#"),
        allow("$exchange/amq.fanout", Effect.DENY),
        allow("$exchange/amq.direct/secret/#", Effect.DENY),
        allow("$queue/orders", Effect.DENY),
        allow("secret/#", Effect.DENY),
    )
    setup = Setup(auth=AuthOptions(allow_anonymous=True, acl=rules))  # type: ignore[arg-type]
    with running(tmp_path, setup) as mqtt:
        for queue in ("orders", "other"):
            mqtt.declare(queue)
            for exchange in ("amq.fanout", "amq.direct"):
                bind(mqtt, exchange, queue, "k")
            bind(mqtt, "amq.topic", queue, "#")
        denied = ReasonCode.NOT_AUTHORIZED
        topics = {
            "$exchange/amq.fanout": denied,
            "$exchange/amq.direct/k": DONE,
            "$exchange/amq.direct/secret/k": denied,
            "$exchange//orders": denied,
            "$exchange//other": DONE,
            "$exchange//$dlq.orders": denied,
            "$exchange/amq.topic/secret/x": denied,
            "$exchange/amq.topic/open": DONE,
        }
        packets = [Publish(topic, b"m", 1, packet_id=number) for number, topic in enumerate(topics, 1)]
        assert reasons(mqtt, *packets) == list(topics.values())
