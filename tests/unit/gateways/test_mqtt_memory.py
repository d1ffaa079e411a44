"""What a server remembers of names that clients make up is bounded."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import V5, RunningGateway, Setup, running, user

from penstock.broker.topics import router as routing
from penstock.broker.topics.router import Router
from penstock.broker.topics.subscriptions import Subscription as Subscribed
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import (
    Disconnect,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
    Will,
)
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.inbound.topic_aliases import TopicAliases
from penstock.gateways.mqtt.options import MqttOptions
from penstock.gateways.mqtt.sessions.session import Session
from penstock.gateways.wire.budget import Budget


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
    assert not router.routes([b"t"])


def test_names_of_queues_that_are_not_made_are_forgotten(mqtt: RunningGateway) -> None:
    mqtt.call(lambda: setattr(mqtt.broker.declaring, "_max_auto_queues", 1))
    client = mqtt.client("c")
    client.subscribe("$queue/first", qos=1)
    for number in range(200):
        assert client.subscribe(f"$queue/q{number}", qos=1)[0].is_refusal
    assert mqtt.call(lambda: len(mqtt.broker.declaring._locks)) <= 1


def test_ways_to_subscribe_that_clients_make_up_are_not_kept_for_others(mqtt: RunningGateway) -> None:
    client, shared = mqtt.lasting(), mqtt.topics.sessions._fold._subscriptions
    for number in range(1, 3001):
        identified = Properties(subscription_identifiers=(number,))
        client.send(Subscribe(number, (Subscription("t", 1),), identified))
    client.came()
    assert len(shared) == 1024
    client.subscribe("$queue/q", qos=1, properties=user(consumer_group="g" * 200))
    assert not [each for each in shared if each.extra]


def test_a_connection_that_is_gone_leaves_nothing_to_the_garbage_collector(mqtt: RunningGateway) -> None:
    """Which looks at the old so rarely that connections that come and go would fill the memory meanwhile."""
    mqtt.declare("q")
    gc.collect()
    gc.disable()
    try:
        for number in range(5):
            mqtt.opened(f"stranger-{number}").close()
            client = mqtt.client(f"plain-{number}")
            client.subscribe("a/#", qos=1)
            lasting = mqtt.lasting(f"lasting-{number}")
            lasting.subscribe("a/#", qos=1)
            consuming = mqtt.client(f"consumer-{number}")
            consuming.subscribe("$queue/q", qos=1)
            for each in (client, lasting, consuming):
                each.cut()
            mqtt.left_with(0)
        mqtt.settle()
        assert not [each for each in gc.get_objects() if isinstance(each, Connection)]
    finally:
        gc.enable()


# The budget of all connections


_BUDGET = 2 << 20


@pytest.fixture
def short(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway with little memory for what peers leave lying."""
    with running(tmp_path, Setup(options=MqttOptions(memory_bytes=_BUDGET, max_outbound_bytes=1 << 20))) as made:
        yield made


def deaf(mqtt: RunningGateway, name: str, qos: int) -> MqttClient:
    client = mqtt.client(name)
    client.subscribe("a", qos=qos)
    return client


@pytest.mark.parametrize("qos", [0, 1])
def test_subscribers_that_never_read_take_no_more_than_the_budget(short: RunningGateway, qos: int) -> None:
    listener = short.client("listener")
    listener.subscribe("b", qos=1)
    for number in range(20):
        deaf(short, f"deaf-{number}", qos)
    publisher, peak = short.client("p"), 0
    for _ in range(60):
        publisher.publish("a", bytes(200_000), 1)
        peak = max(peak, short.call(lambda: short.gateway.connections.budget.used_bytes))
    assert 0 < peak <= _BUDGET * 3 // 4
    publisher.publish("b", b"to who reads", 1)
    assert listener.expect_message().payload == b"to who reads"


def test_when_it_is_spent_whoever_leaves_the_most_is_cut_off_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limit = 16 << 20
    with running(tmp_path, Setup(options=MqttOptions(memory_bytes=limit))) as mqtt:
        for number in range(20):
            deaf(mqtt, f"deaf-{number}", 0)
        publisher = mqtt.client("p")
        for _ in range(2):  # the first is more than some sockets hold, the second more than any does
            publisher.publish("a", bytes(7 << 20), 1)
            assert mqtt.call(lambda: mqtt.gateway.connections.budget.used_bytes) <= limit
        cut = mqtt.call(lambda: mqtt.gateway.counters.throttled["memory"])
        assert cut > 0
        mqtt.until(lambda: mqtt.gateway.connection_count == 21 - cut)
        assert caplog.text.count("memory for connections is spent") == 1


def test_what_connections_took_is_given_back(short: RunningGateway) -> None:
    clients = [deaf(short, f"deaf-{number}", number % 2) for number in range(6)]
    publisher = short.client("p")
    for _ in range(20):
        publisher.publish("a", bytes(200_000), 1)
    for client in clients:
        client.cut()
    short.left_with(1)
    assert short.call(lambda: short.gateway.connections.budget.used_bytes) == 0


def test_packets_that_come_in_pieces_have_a_budget_too(tmp_path: Path) -> None:
    with running(tmp_path, Setup(options=MqttOptions(memory_bytes=_BUDGET, max_packet_bytes=256 << 10))) as mqtt:
        clients = [mqtt.client(f"c{number}") for number in range(8)]
        reactor = mqtt.gateway.turns.reactor
        for client in clients:
            client.send_raw(b"\x30\x90\xa1\x0f" + bytes(200_000))  # of a PUBLISH of 250,000
        mqtt.until(lambda: mqtt.gateway.counters.throttled["memory"] > 0)
        mqtt.until(lambda: reactor.kept_bytes == 200_004 * mqtt.gateway.connection_count)
        assert 0 < mqtt.call(lambda: reactor.kept_bytes) <= mqtt.gateway.incoming_bytes
        # No more are cut off than have to be: for one more there would be no room.
        assert mqtt.call(lambda: reactor.kept_bytes) + 200_004 + (50 << 10) > mqtt.gateway.incoming_bytes
        for client in clients:
            client.cut()
        mqtt.left_with(0)
        assert mqtt.call(lambda: reactor.kept_bytes) == 0


def test_aliases_for_long_topics_are_bounded(mqtt: RunningGateway) -> None:
    client = mqtt.client("c")
    for number in range(4):
        client.send(Publish(f"{number}/{'x' * 60_000}", b"", properties=Properties(topic_alias=number + 1)))
    assert client.expect(Disconnect).reason is ReasonCode.QUOTA_EXCEEDED
    aliases = TopicAliases(100, Budget(1 << 20, lambda: None))
    topics = [b"%d" % number * 30_000 for number in range(10)]
    for topic in topics:
        found = aliases.of([topic])
        aliases.told([topic], array("i", [abs(found[0])]))
    assert [aliases.of([topic])[0] > 0 for topic in topics] == [True] * 4 + [False] * 6


def test_filters_of_one_client_are_bounded_together(tmp_path: Path) -> None:
    with running(tmp_path, Setup(options=MqttOptions(max_subscription_bytes=100_000))) as mqtt:
        client = mqtt.lasting("c")
        answers = [client.subscribe(f"{number}/{'x' * 30_000}", qos=1)[0] for number in range(5)]
        assert answers == [ReasonCode.GRANTED_QOS_1] * 3 + [ReasonCode.QUOTA_EXCEEDED] * 2
        assert client.subscribe("short", qos=1) == (ReasonCode.GRANTED_QOS_1,)


def names_used(mqtt: RunningGateway) -> int:
    return mqtt.call(lambda: mqtt.gateway.names.used_bytes)


@pytest.mark.parametrize("version", Version)
def test_filters_of_all_clients_have_a_budget_and_leave_room_for_others(
    short: RunningGateway, version: Version
) -> None:
    refused = []
    for number in range(20):
        client = short.client(f"greedy-{number}", version)
        client.send(Subscribe(1, tuple(Subscription(f"{place}/{'x' * 30_000}", 1) for place in range(4))))
        answer = client.expect(SubAck)
        refused += [answer] if answer.reasons[-1].is_refusal else []
    assert names_used(short) <= short.gateway.names.limit_bytes == _BUDGET // 4
    assert refused[0].reasons[-1] == (ReasonCode.QUOTA_EXCEEDED if version is V5 else ReasonCode.UNSPECIFIED_ERROR)
    if version is V5:
        assert "no memory left for topic filters" in (refused[0].properties.reason_string or "")
    assert short.call(lambda: short.gateway.counters.throttled["memory"]) > 0
    assert short.client("modest").subscribe("a/b", "$queue/q", qos=1) == (ReasonCode.GRANTED_QOS_1,) * 2


def test_filters_cost_what_they_take_beside_their_text_too(short: RunningGateway) -> None:
    refused = 0
    clients = [short.client(f"greedy-{number}") for number in range(10)]
    for client in clients:
        client.send(Subscribe(1, tuple(Subscription(f"{place}", 1) for place in range(1000))))
        refused += sum(reason is ReasonCode.QUOTA_EXCEEDED for reason in client.expect(SubAck).reasons)
    subscriptions = short.call(lambda: sum(client.subscriptions for client in short.gateway.directory.tallies()))
    assert subscriptions == 10_000 - refused
    assert 350 * (subscriptions - 160) < names_used(short) <= short.gateway.names.limit_bytes
    clients.append(short.client("modest"))
    assert clients[-1].subscribe(*map(str, range(16)), qos=1) == (ReasonCode.GRANTED_QOS_1,) * 16
    clients[0].unsubscribe(*map(str, range(500)))
    for client in clients:
        client.cut()
    short.left_with(0)
    assert names_used(short) == 0


def test_filters_are_given_back_when_they_or_their_session_end(short: RunningGateway) -> None:
    kept = short.lasting("kept")
    kept.subscribe("a/b", "$queue/q", "$share/g/t", qos=1)
    used = names_used(short)
    assert used == len("a/b$queue/q$share/g/t")
    kept.subscribe("a/b", "$queue/q", qos=0)
    passing = short.client("passing")
    passing.subscribe("c/d", "$queue/other", "$queue/no such/\ufeff", qos=1)
    passing.subscribe("$share/g/w", qos=1, properties=user(durable="true"))
    passing.subscribe("$share/g/w", qos=1)
    passing.unsubscribe("c/d", "c/d", "never")
    passing.cut()
    kept.cut()
    short.left_with(0)
    assert names_used(short) == used
    short.restart()
    assert names_used(short) == used
    short.lasting("kept").unsubscribe("$queue/q")
    assert names_used(short) == len("a/b$share/g/t")
    short.client("kept")
    assert names_used(short) == 0


def test_a_subscription_to_a_queue_that_is_refused_takes_nothing(tmp_path: Path) -> None:
    with running(tmp_path, Setup(auto_create=False)) as mqtt:
        assert mqtt.client("c").subscribe("$queue/q", qos=1)[0].is_refusal
        assert names_used(mqtt) == 0


def test_topic_aliases_of_all_clients_have_a_budget(short: RunningGateway) -> None:
    clients = [short.client(f"c{number}") for number in range(20)]
    for client in clients:
        client.send(Publish("x" * 60_000, b"", properties=Properties(topic_alias=1)))
        client.send(Publish("y" * 60_000, b"", properties=Properties(topic_alias=1)))
    assert clients[-1].expect(Disconnect).reason is ReasonCode.QUOTA_EXCEEDED
    assert 0 < names_used(short) <= short.gateway.names.limit_bytes
    assert short.call(lambda: short.gateway.counters.throttled["memory"]) > 0
    for client in clients:
        client.cut()
    short.left_with(0)
    assert names_used(short) == 0


def test_topics_that_clients_are_told_aliases_for_are_counted_and_given_back(short: RunningGateway) -> None:
    client = short.client("c", properties=Properties(topic_alias_maximum=10))
    client.subscribe("#")
    client.publish("a/b", b"1")
    client.publish("a/b", b"2")
    assert [client.expect_message().properties.topic_alias for _ in range(2)] == [1, 1]
    assert names_used(short) == len("#a/b")
    client.cut()
    short.left_with(0)
    assert names_used(short) == 0


def wills(mqtt: RunningGateway, count: int, properties: Properties) -> list[ReasonCode]:
    will = Will("t", bytes(40_000), properties=Properties(will_delay_interval_s=3600))
    clients = [mqtt.opened(f"c{number}") for number in range(count)]
    return [client.connect(will=will, properties=properties).reason for client in clients]


@pytest.mark.parametrize("is_lasting", [False, True])
def test_wills_of_all_clients_have_a_budget_and_short_ones_are_always_taken(
    short: RunningGateway, is_lasting: bool
) -> None:
    lasting = Properties(session_expiry_interval_s=3600) if is_lasting else NO_PROPERTIES
    reasons = wills(short, 20, lasting)
    assert {*reasons} == {ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED}
    taken = reasons.count(ReasonCode.SUCCESS)
    assert 38_000 * (taken - 1) < names_used(short) <= short.gateway.names.limit_bytes
    assert short.call(lambda: short.gateway.counters.throttled["memory"]) == 20 - taken
    assert short.opened("modest").connect(will=Will("t", bytes(1000))).reason is ReasonCode.SUCCESS
    if is_lasting:
        short.restart()
        assert names_used(short) > 38_000 * (taken - 1)
    else:
        short.restart()
        assert names_used(short) == 0


def test_a_will_that_was_published_or_taken_back_is_given_back(short: RunningGateway) -> None:
    lasting = Properties(session_expiry_interval_s=3600)
    first, second = short.opened("first"), short.opened("second")
    for client in (first, second):
        assert client.connect(will=Will("t", bytes(40_000)), properties=lasting).reason is ReasonCode.SUCCESS
    assert names_used(short) > 70_000
    first.cut()  # published at once
    short.left_with(1)
    short.until(lambda: short.gateway.names.used_bytes < 40_000)
    second.disconnect()  # taken back
    short.left_with(0)
    short.until(lambda: short.gateway.names.used_bytes == 0)


def held(client: MqttClient, packet_ids: range) -> object:
    """The last of the answers to publishes of QoS 2, or what else came."""
    client.send_raw(b"".join([encode(Publish("t", b"", 2, packet_id=packet_id), V5) for packet_id in packet_ids]))
    for _ in packet_ids:
        answer = client.receive()
        if not isinstance(answer, PubRec):
            break
    return answer


@pytest.mark.parametrize("is_lasting", [False, True])
def test_what_clients_do_not_release_has_a_budget_too(short: RunningGateway, is_lasting: bool) -> None:
    """A set of 60,000 identifiers of QoS 2 takes as much as a long message."""
    lasting = Properties(session_expiry_interval_s=3600) if is_lasting else NO_PROPERTIES
    client = short.client("c", properties=lasting)
    taken = 0
    while isinstance(answer := held(client, range(taken + 1, taken + 101)), PubRec):
        taken += 100
    assert 1000 <= taken < 4000
    assert isinstance(answer, Disconnect) and answer.reason is ReasonCode.QUOTA_EXCEEDED
    assert short.call(lambda: short.gateway.counters.throttled["memory"]) == 1
    short.left_with(0)
    again = short.client("c", clean=False, properties=lasting)
    assert (names_used(short) > 50_000) is is_lasting
    for packet_id in range(1, 5001):
        again.send(PubRel(packet_id))
    while again.expect(PubComp).packet_id < 5000:
        continue
    assert names_used(short) == 0
