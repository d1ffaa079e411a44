"""Clients that come back: what they had, what they get again, and how it is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.support import servers
from tests.support.mqtt_client import MqttClient, assert_accepted
from tests.support.servers import RunningServer

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Disconnect, PubAck, Publish, PubRec, Subscribe, Subscription
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

BY_ANSWER = Properties(user_properties=(("consumer-group", "g"), ("ack-mode", "puback")))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with servers.penstock(tmp_path_factory.mktemp("returns")) as running:
        yield running


@pytest.mark.parametrize("version", Version)
def test_what_a_consumer_did_not_settle_comes_again_to_the_next_one(server: RunningServer, version: Version) -> None:
    queue = f"$queue/again-{version}"
    filter, terms = (f"$share/g/{queue}", Properties()) if version is Version.V3_1_1 else (queue, BY_ANSWER)
    first = MqttClient(server.address, version, "first")
    first.connect()
    for number in range(5):
        first.publish(queue, b"%d" % number, 1)
    first.subscribe(filter, qos=1, properties=terms)
    assert [first.expect(Publish).payload for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    first.cut()
    second = MqttClient(server.address, version, "second")
    second.connect()
    second.subscribe(filter, qos=1, properties=terms)
    came = second.expect_payloads([b"0", b"1", b"2", b"3", b"4"])
    if version is Version.V5:
        assert [message.properties.user_values("delivery-count") for message in came] == [["2"]] * 5
        assert [message.properties.user_values("message-id")[0][-1:] for message in came] == ["0", "1", "2", "3", "4"]
    second.close()


@pytest.mark.parametrize("version", Version)
def test_a_message_beside_one_that_came_before_is_taken(server: RunningServer, version: Version) -> None:
    """The topic of the duplicate is left without a message, and its queue with nothing to take."""
    client = MqttClient(server.address, version, f"twice-{version}")
    client.connect()
    once = Publish("$queue/twice", b"once", 2, packet_id=7)
    client.send(once)
    assert_accepted(client.expect(PubRec), 7)
    client.send(replace(once, dup=True), Publish("beside/it", b"1", 1, packet_id=8))
    answers = {client.receive(), client.receive()}
    assert answers == {PubRec(7), PubAck(8)}
    client.close()


@pytest.mark.parametrize("version", Version)
def test_a_packet_that_its_first_byte_gives_away_is_not_waited_for(server: RunningServer, version: Version) -> None:
    client = MqttClient(server.address, version, f"flags-{version}")
    client.connect()
    client.send_raw(b"\xbd\x20")
    said = client.expect_closed()
    assert version is Version.V3_1_1 or (isinstance(said, Disconnect) and said.reason is ReasonCode.MALFORMED_PACKET)
    client.close()


def test_a_client_that_is_put_out_while_it_subscribes_leaves_no_subscription(server: RunningServer) -> None:
    """A new queue takes a moment to make; another client with the same id comes meanwhile."""
    told = MqttClient(server.address, Version.V5, "told")
    told.connect()
    told.subscribe("$SYS/broker/subscriptions/count")
    before = int(told.expect_message().payload)
    for number in range(20):
        first = MqttClient(server.address, Version.V5, "same")
        first.connect()
        wanted = (Subscription(f"$queue/made-{number}", 1), Subscription(f"left/{number}", 1))
        first.send(Subscribe(1, wanted))
        second = MqttClient(server.address, Version.V5, "same")
        second.connect()
        second.disconnect()
        first.close()
        second.close()
    counts = [int(told.expect_message().payload) for _ in range(3)]
    assert counts[-1] == before
    told.close()
