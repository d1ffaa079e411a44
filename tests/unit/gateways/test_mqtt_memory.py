"""What a server remembers of names that clients make up is bounded."""

from __future__ import annotations

import pytest
from tests.support.mqtt_gateway import RunningGateway, user

from penstock.codecs.mqtt.packets import Subscribe, Subscription
from penstock.codecs.mqtt.properties import Properties
from penstock.gateways.mqtt import router as routing
from penstock.gateways.mqtt.router import Router
from penstock.gateways.mqtt.session import Session
from penstock.gateways.mqtt.subscription import Subscription as Subscribed


def routed(router: Router, topics: int, topic_bytes: int) -> int:
    for number in range(topics):
        router.route(b"%0*d" % (topic_bytes, number))
    return sum(len(topic) for topic in router._routes)


def test_long_topics_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "_MAX_ROUTES_BYTES", 1 << 20)
    assert 0 < routed(Router(), 200, 60_000) <= 1 << 20


def test_topics_that_thousands_receive_are_remembered_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "_MAX_ROUTES_BYTES", 1 << 20)
    router = Router()
    for number in range(1000):
        session = Session(f"c{number}", "default", None)
        router.add(Subscribed(session, "#", "#", None, 0, False, False, None))
    routed(router, 100, 10)
    assert 0 < len(router._routes) <= 10


def test_routes_follow_subscriptions_after_they_were_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "_MAX_ROUTES_BYTES", 2_000)
    router = Router()
    session = Session("c", "default", None)
    subscription = Subscribed(session, "$share/g/t", "t", "g", 0, False, False, None)
    router.add(subscription)
    routed(router, 50, 10)
    assert len(router.route(b"t").shares) == 1
    router.remove(subscription)
    assert router.route(b"t").is_empty


def test_names_of_queues_that_are_not_made_are_forgotten(mqtt: RunningGateway) -> None:
    mqtt.call(lambda: setattr(mqtt.broker.declaring, "_max_auto_queues", 1))
    client = mqtt.client("c")
    client.subscribe("$queue/first", qos=1)
    for number in range(200):
        assert client.subscribe(f"$queue/q{number}", qos=1)[0].is_refusal
    assert mqtt.call(lambda: len(mqtt.broker.declaring._locks)) <= 1


def test_ways_to_subscribe_that_clients_make_up_are_not_kept_for_others(mqtt: RunningGateway) -> None:
    client, shared = mqtt.lasting(), mqtt.gateway.sessions._fold._subscriptions
    for number in range(1, 3001):
        identified = Properties(subscription_identifiers=(number,))
        client.send(Subscribe(number, (Subscription("t", 1),), identified))
    client.came()
    assert len(shared) == 1024
    client.subscribe("$queue/q", qos=1, properties=user(consumer_group="g" * 200))
    assert not [each for each in shared if each.extra]
