"""Publishes of many clients in one turn: with the same outcome as one by one, and none pays for another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import V3, V5, RunningGateway, Setup, consumer, running, said
from tests.support.mqtt_turns import barred, one_turn, watched

from penstock.broker.auth.options import AuthOptions
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Disconnect, PubAck, PubComp, Publish, PubRec, PubRel, Subscription
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import DiskLow, OutcomeUnknown
from penstock.gateways.mqtt.options import MqttOptions

FULL, DONE = ReasonCode.QUOTA_EXCEEDED, ReasonCode.SUCCESS


def warm(mqtt: RunningGateway, *topics: str) -> None:
    """Partitions are made when they are first needed, which takes the long way."""
    client = mqtt.client("first")
    for topic in topics:
        client.publish(topic, b"first", 1)
    client.close()


def reason(client: MqttClient) -> ReasonCode:
    return client.expect(PubAck).reason


def packet(number: int, topic: str = "$queue/q", payload: bytes | None = None) -> Publish:
    return Publish(topic, b"%d" % number if payload is None else payload, 1, packet_id=number)


def payloads(client: MqttClient, count: int) -> list[bytes]:
    return [client.expect_message().payload for _ in range(count)]


@pytest.mark.parametrize(
    ("topic", "qos", "retain", "properties", "is_together"),
    [
        ("$queue/q", 1, False, NO_PROPERTIES, True),
        ("$queue/q/a/b", 1, False, NO_PROPERTIES, True),
        ("$queue/q", 0, False, NO_PROPERTIES, True),
        ("$queue/q", 2, False, NO_PROPERTIES, True),
        ("t/1", 1, False, NO_PROPERTIES, True),
        ("t/1", 1, True, NO_PROPERTIES, True),
        ("t/1", 1, False, Properties(user_properties=(("a", "b"),)), True),
        ("t/1", 1, False, Properties(message_expiry_interval_s=60), True),
        ("t/1", 1, False, Properties(topic_alias=3), True),
        ("t/heard", 1, False, NO_PROPERTIES, True),
        ("t/both", 1, False, NO_PROPERTIES, True),
        ("$queue/q", 1, False, Properties(user_properties=(("partition", "0"),)), False),
    ],
)
def test_the_same_becomes_of_a_message_with_others_and_alone(
    mqtt: RunningGateway, topic: str, qos: int, retain: bool, properties: Properties, is_together: bool
) -> None:
    mqtt.declare("q", topics=["t/#"])
    mqtt.declare("other", topics=["t/both"])
    warm(mqtt, "$queue/q", "$queue/other")
    first = mqtt.client("first")
    first.publish("t/first", b"", 1, retain=True)
    first.close()
    mqtt.client("listener").subscribe("t/heard", qos=0)
    client, ways = consumer(mqtt), watched(mqtt)
    payloads(client, 2)
    found = []
    for is_barred in (False, True):
        if is_barred:
            barred(mqtt)
        mqtt.client("p").publish(topic, b"x", qos, retain=retain, properties=properties)
        message = client.expect_message()
        told = {name: value for name, value in said(message).items() if name not in ("message-id", "offset")}
        found.append((message.topic, message.payload, message.qos, message.retain, told))
    assert ways == [is_together]
    assert found[0] == found[1]


def test_what_many_clients_send_in_one_turn_is_one_frame_and_each_is_answered(mqtt: RunningGateway) -> None:
    mqtt.declare("q", partitions=4)
    mqtt.declare("r")
    clients = [mqtt.client(f"p{number}") for number in range(8)]
    topics = [f"$queue/q/{number}" if number % 2 else f"$queue/r/{number}" for number in range(8)]
    for client, topic in zip(clients, topics, strict=True):
        client.publish(topic, b"first", 1)
    mqtt.settle()
    frames, before = mqtt.broker.shard.metrics.frames, mqtt.messages_in("q") + mqtt.messages_in("r")
    with one_turn(mqtt):
        for client, topic in zip(clients, topics, strict=True):
            client.send(packet(1, topic), packet(2, topic), packet(3, topic))
    for client in clients:
        assert [client.expect(PubAck).packet_id for _ in range(3)] == [1, 2, 3]
    assert mqtt.broker.shard.metrics.frames == frames + 1
    assert mqtt.messages_in("q") + mqtt.messages_in("r") == before + 24


def test_messages_of_a_client_keep_their_order_whichever_way_they_go(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client, publisher, ways = consumer(mqtt), mqtt.client("p"), watched(mqtt)
    payloads(client, 1)
    special = Properties(user_properties=(("partition", "0"),))
    packets = [
        Publish("$queue/q", b"%d" % n, 1, packet_id=n, properties=special if n % 40 == 5 else NO_PROPERTIES)
        for n in range(1, 201)
    ]
    for some in (packets[:4], packets[4:7], packets[7:60], packets[60:]):
        with one_turn(mqtt):
            for one in some:
                publisher.send(one)
        assert [publisher.expect(PubAck).packet_id for _ in some] == [one.packet_id for one in some]
    assert payloads(client, 200) == [b"%d" % n for n in range(1, 201)]
    assert set(ways) == {True, False}


def test_a_queue_takes_no_more_than_its_depth_whoever_comes_in_the_same_turn(mqtt: RunningGateway) -> None:
    mqtt.declare("q", limits={"max_queue_depth": 3})
    mqtt.declare("r")
    warm(mqtt, "$queue/q", "$queue/r")
    payloads(consumer(mqtt), 1)
    mqtt.settle()
    mqtt.until(lambda: not mqtt.broker.queue("q").depth())
    clients, other = [mqtt.client(f"p{number}") for number in range(5)], mqtt.client("other")
    with one_turn(mqtt):
        for client in clients:
            client.send(packet(1))
        other.send(packet(1, "$queue/r"))
    reasons = [reason(client) for client in clients]
    assert (reasons.count(DONE), reasons.count(FULL)) == (3, 2)
    assert mqtt.unsettled() == 3
    assert reason(other) is DONE


def test_a_message_that_is_too_large_is_refused_alone(mqtt: RunningGateway) -> None:
    mqtt.declare("q", limits={"max_message_size": "10B"})
    warm(mqtt, "$queue/q")
    large, small = mqtt.client("large"), mqtt.client("small")
    with one_turn(mqtt):
        small.send(packet(1))
        large.send(packet(1, payload=b"more than ten"))
        small.send(packet(2))
    assert reason(large) is FULL
    assert [reason(small), reason(small)] == [DONE, DONE]


@pytest.mark.parametrize("version", [V3, V5])
def test_what_cannot_be_staged_is_refused_as_the_version_can_say(mqtt: RunningGateway, version: Version) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client = mqtt.client("p", version)
    low = mock.Mock(side_effect=DiskLow(1, 2))
    with mock.patch.multiple(mqtt.broker.shard, stage_now=low, commit=low, commit_spread=low):
        client.send(packet(1))
        if version is V5:
            assert reason(client) is FULL
        else:
            client.expect_closed()
    assert mqtt.messages_in("q") == 1
    assert mqtt.gateway.reports.refused_rows.total() == 1
    mqtt.client("again").publish("$queue/q", b"x", 1)
    assert mqtt.messages_in("q") == 2


def test_where_nobody_knows_the_outcome_nothing_is_answered(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client = mqtt.client("p")
    with mock.patch.object(mqtt.broker.shard, "stage_now", mock.Mock(side_effect=OutcomeUnknown("test"))):
        client.send(packet(1))
        assert isinstance(client.expect_closed(), Disconnect)


def test_what_has_to_wait_for_room_is_committed_then_and_the_rest_of_the_client_stays_behind_it(
    mqtt: RunningGateway,
) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client, publisher, shard = consumer(mqtt), mqtt.client("p"), mqtt.broker.shard
    payloads(client, 1)
    stage, refusals = shard.stage_now, [True]

    def busy_once(*arguments: object) -> Sequence[int] | None:
        return None if refusals and refusals.pop() else stage(*arguments)  # type: ignore[arg-type]  # passed on as they are

    special = Properties(message_expiry_interval_s=60)
    with mock.patch.object(shard, "stage_now", busy_once):
        publisher.send(packet(1))
        publisher.send(Publish("$queue/q", b"2", 1, packet_id=2, properties=special))
        publisher.send(packet(3))
        assert [publisher.expect(PubAck).packet_id for _ in range(3)] == [1, 2, 3]
    assert not refusals
    assert payloads(client, 3) == [b"1", b"2", b"3"]


def test_more_than_a_frame_takes_are_several(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    clients = [mqtt.client(f"p{number}") for number in range(30)]
    with one_turn(mqtt):
        for client in clients:
            client.send(packet(1, payload=bytes(10_000)))
    assert [reason(client) for client in clients] == [DONE] * 30
    assert mqtt.messages_in("q") == 31


def test_a_client_that_leaves_in_the_same_turn_has_published(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client = mqtt.client("p")
    client.send(packet(1), Disconnect())
    mqtt.left_with(0)
    mqtt.settle()
    assert mqtt.messages_in("q") == 2


def test_clients_that_listen_get_what_many_publish_in_one_turn_in_the_order_of_each(mqtt: RunningGateway) -> None:
    listener, clients = mqtt.client("r"), [mqtt.client(f"p{number}") for number in range(4)]
    listener.subscribe("t/#", qos=1)
    ways = watched(mqtt)
    with one_turn(mqtt):
        for number, client in enumerate(clients):
            client.send(*[packet(n, f"t/{number}", b"%d.%d" % (number, n)) for n in (1, 2, 3)])
    found = payloads(listener, 12)
    for number, client in enumerate(clients):
        mine = [each for each in found if each.startswith(b"%d." % number)]
        assert mine == [b"%d.%d" % (number, n) for n in (1, 2, 3)]
        assert [client.expect(PubAck).packet_id for _ in range(3)] == [1, 2, 3]
    assert ways == [True]


def test_who_asked_not_to_get_its_own_gets_those_of_others_in_the_same_turn(mqtt: RunningGateway) -> None:
    clients = [mqtt.client(f"p{number}") for number in range(3)]
    for client in clients[:2]:
        client.subscribe(Subscription("t/#", 1, no_local=True))
    clients[2].subscribe(Subscription("t/#", 1))
    with one_turn(mqtt):
        for number, client in enumerate(clients):
            client.send(packet(1, "t/same", b"same %d" % number), packet(2, f"t/{number}", b"own %d" % number))
    for number, client in enumerate(clients):
        others = [n for n in range(3) if n != number or number == 2]
        expected = {text % n for n in others for text in (b"same %d", b"own %d")}
        found = [client.receive() for _ in range(len(expected) + 2)]
        assert {each.payload for each in found if isinstance(each, Publish)} == expected


def test_a_shared_subscription_gets_each_message_of_a_turn_once(mqtt: RunningGateway) -> None:
    members, clients = [mqtt.client(f"m{number}") for number in range(2)], [mqtt.client(f"p{n}") for n in range(4)]
    for member in members:
        member.subscribe("$share/g/t/#", qos=1)
    with one_turn(mqtt):
        for number, client in enumerate(clients):
            client.send(packet(1, "t/x", b"%d" % number))
    found = [payload for member in members for payload in payloads(member, 2)]
    assert sorted(found) == [b"0", b"1", b"2", b"3"]


def test_each_quality_of_service_is_answered_in_the_order_of_the_packets(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client, other, ways = mqtt.client("p"), mqtt.lasting("l"), watched(mqtt)
    levels = (1, 2, 2, 1, 2)
    with one_turn(mqtt):
        for each in (client, other):
            each.send(*[Publish("$queue/q", b"x", qos, packet_id=n) for n, qos in enumerate(levels, 1)])
    for each in (client, other):
        found = [each.receive() for _ in levels]
        assert found == [PubAck(n) if qos == 1 else PubRec(n) for n, qos in enumerate(levels, 1)]
    assert ways == [True]
    assert mqtt.messages_in("q") == 11


def test_a_message_of_qos_2_that_comes_again_is_answered_and_not_taken_twice(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client, other = mqtt.client("p"), mqtt.client("o")
    client.send(Publish("$queue/q", b"x", 2, packet_id=1))
    assert client.expect(PubRec).packet_id == 1
    with one_turn(mqtt):
        client.send(Publish("$queue/q", b"x", 2, packet_id=1, dup=True), Publish("$queue/q", b"y", 2, packet_id=2))
        other.send(Publish("$queue/q", b"z", 2, packet_id=1))
    assert {client.expect(PubRec).packet_id for _ in range(2)} == {1, 2}
    assert other.expect(PubRec).packet_id == 1
    assert mqtt.messages_in("q") == 4


def test_aliases_are_each_clients_own_and_a_wrong_one_ends_its_own_connection(mqtt: RunningGateway) -> None:
    listener, clients = mqtt.client("r"), [mqtt.client(f"p{number}") for number in range(3)]
    listener.subscribe("t/#", qos=0)
    for number, client in enumerate(clients[:2]):
        client.publish(f"t/{number}", b"told", 1, properties=Properties(topic_alias=1))
    payloads(listener, 2)
    by_alias = Properties(topic_alias=1)
    with one_turn(mqtt):
        for client in clients:
            client.send(Publish("", b"by alias", 1, packet_id=1, properties=by_alias))
    found = [listener.expect_message() for _ in range(2)]
    assert sorted((each.topic, each.payload) for each in found) == [("t/0", b"by alias"), ("t/1", b"by alias")]
    assert [reason(client) for client in clients[:2]] == [DONE, DONE]
    assert isinstance(clients[2].expect_closed(), Disconnect)


def test_whoever_sends_more_than_may_be_unanswered_ends_its_own_connection(tmp_path: Path) -> None:
    options = MqttOptions(sys_interval_s=0, receive_maximum=2)
    with running(tmp_path, Setup(options=options)) as mqtt:
        mqtt.declare("q")
        warm(mqtt, "$queue/q")
        good, bad = mqtt.client("good"), mqtt.client("bad")
        for _ in range(3):
            with one_turn(mqtt):
                good.send(packet(1), packet(2))
            assert [reason(good), reason(good)] == [DONE, DONE]
        with one_turn(mqtt):
            good.send(packet(1), packet(2))
            bad.send(packet(1), packet(2), packet(3))
        assert [reason(good), reason(good)] == [DONE, DONE]
        left = bad.expect_closed()
        assert isinstance(left, Disconnect) and left.reason is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def test_what_is_refused_at_once_is_answered_behind_what_is_being_committed(mqtt: RunningGateway) -> None:
    """Both ways are used by one client at the same time, and the answers keep the order of the packets."""
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client = mqtt.client("p")
    for _ in range(20):
        with one_turn(mqtt):
            client.send(packet(1), packet(2))
        with one_turn(mqtt):
            client.send(packet(3, "$SYS/forbidden"))
        with one_turn(mqtt):
            client.send(packet(4))
        assert [client.expect(PubAck).packet_id for _ in range(4)] == [1, 2, 3, 4]


def test_a_right_that_was_granted_is_asked_for_again_when_rules_change(tmp_path: Path) -> None:
    rule = {"effect": "allow", "action": "publish", "pattern": "t/#", "role": "staff"}

    def ask(client: MqttClient, what: str, **more: object) -> ReasonCode:
        client.send(Publish(f"$admin/{what}", json.dumps(more).encode(), 1, packet_id=9))
        return reason(client)

    with running(tmp_path, Setup(auth=AuthOptions())) as mqtt:
        mqtt.wait(mqtt.access.users.add("root", b"secret", roles=["admin"]))
        mqtt.wait(mqtt.access.users.add("device", b"secret", roles=["staff"]))
        root = mqtt.client("root", username="root", password=b"secret")
        client = mqtt.client("p", username="device", password=b"secret")
        found = []
        for change in ("acl/add", "acl/rm", "acl/add"):
            assert ask(root, change, **rule) is DONE
            for _ in range(2):
                client.send(packet(1, "t/x"))
                found.append(reason(client))
        assert found == [DONE, DONE, ReasonCode.NOT_AUTHORIZED, ReasonCode.NOT_AUTHORIZED, DONE, DONE]


def test_a_mistake_of_the_server_ends_those_whom_it_may_be_about_and_nobody_else(mqtt: RunningGateway) -> None:
    clients, other = [mqtt.client(f"p{number}") for number in range(2)], mqtt.client("other")
    publishes = mqtt.gateway.turns.publishes
    with mock.patch.object(publishes, "_take", mock.Mock(side_effect=RuntimeError("test"))):
        with one_turn(mqtt):
            for client in clients:
                client.send(packet(1, "t/x"))
        for client in clients:
            left = client.expect_closed()
            assert isinstance(left, Disconnect) and left.reason is ReasonCode.UNSPECIFIED_ERROR
    other.publish("t/x", b"x", 1)


def test_what_waits_of_one_receive_is_done_in_its_order_before_anything_else_is_looked_at(mqtt: RunningGateway) -> None:
    """PUBREL of a session on disk, then a message that has to make its queue, then a plain one."""
    mqtt.declare("q")
    warm(mqtt, "$queue/q")
    client = mqtt.lasting("l")
    for number in range(1, 6):
        client.send(Publish("$queue/q", b"x", 2, packet_id=number))
        assert client.expect(PubRec).packet_id == number
        with one_turn(mqtt):
            client.send(PubRel(number), packet(100 + number, f"$queue/new-{number}"))
        client.send(packet(200 + number))
        found = [client.receive() for _ in range(3)]
        assert [type(each) for each in found] == [PubComp, PubAck, PubAck]
        assert [each.packet_id for each in found if isinstance(each, PubAck)] == [100 + number, 200 + number]


def test_answers_of_a_connection_that_is_gone_can_be_forgotten(mqtt: RunningGateway) -> None:
    """What several wait for may be refused after one of them has left: the others are answered all the same."""
    mqtt.client("p")
    [connection] = mqtt.gateway.connections

    def run() -> None:
        answer = connection.answers.owe_encoded(b"")
        connection.answers.leave()
        connection.answers.forget(answer)

    mqtt.call(run)
    assert len(connection.answers) == 0
