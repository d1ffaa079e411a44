"""Who gets a message, once and how: overlapping filters, options of subscriptions, sessions that last."""

from __future__ import annotations

import pytest
from tests.support.mqtt_gateway import V3, V5, RunningGateway

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.packets import Publish, Subscription
from penstock.codecs.mqtt.properties import Properties


def test_overlapping_filters_give_one_message_with_the_highest_qos_and_all_identifiers(mqtt: RunningGateway) -> None:
    client, publisher = mqtt.client("a"), mqtt.client("p")
    client.subscribe("t/+", qos=1, properties=Properties(subscription_identifiers=(7,)))
    client.subscribe("t/#", qos=2, properties=Properties(subscription_identifiers=(200,)))
    client.subscribe("t/1", qos=0)
    publisher.publish("t/1", b"x", 2)
    [message] = client.expect_only(1, publisher)
    assert (message.qos, message.properties.subscription_identifiers) == (2, (7, 200))


@pytest.mark.parametrize("is_lasting", [False, True])
def test_no_local_holds_back_only_the_clients_own_messages(mqtt: RunningGateway, is_lasting: bool) -> None:
    client = mqtt.lasting("a") if is_lasting else mqtt.client("a")
    other = mqtt.client("b")
    client.subscribe(Subscription("t", 1, no_local=True))
    client.publish("t", b"mine", 1)
    other.publish("t", b"theirs", 1)
    client.expect_payloads([b"theirs"])


def test_a_filter_without_no_local_beside_one_with_it_lets_own_messages_through(mqtt: RunningGateway) -> None:
    client = mqtt.client("a")
    client.subscribe(Subscription("t/+", 1, no_local=True), Subscription("t/#", 1))
    client.publish("t/1", b"mine", 0)
    client.expect_payloads([b"mine"])


@pytest.mark.parametrize("is_lasting", [False, True])
def test_messages_of_one_receive_have_each_the_qos_and_retain_of_their_own_subscription(
    mqtt: RunningGateway, is_lasting: bool
) -> None:
    client = mqtt.lasting("a") if is_lasting else mqtt.client("a")
    client.subscribe(Subscription("low", 1), Subscription("high", 2, retain_as_published=True))
    publisher = mqtt.client("p")
    publisher.send(
        Publish("low", b"1", 2, True, packet_id=1),
        Publish("high", b"2", 2, True, packet_id=2),
        Publish("low", b"3", 2, True, packet_id=3),
    )
    found = {message.payload: message for message in (client.expect_message() for _ in range(3))}
    assert {payload: (one.qos, one.retain) for payload, one in found.items()} == {
        b"1": (1, False),
        b"2": (2, True),
        b"3": (1, False),
    }


@pytest.mark.parametrize("is_lasting", [False, True])
def test_messages_of_several_topics_in_one_receive_stay_in_their_order(mqtt: RunningGateway, is_lasting: bool) -> None:
    client = mqtt.lasting("a") if is_lasting else mqtt.client("a")
    client.subscribe("t/#", qos=1)
    publisher = mqtt.client("p")
    sent = [Publish(f"t/{i % 3}", str(i).encode(), 1, packet_id=i + 1) for i in range(20)]
    publisher.send_raw(b"".join(encode(packet, V5) for packet in sent))
    client.expect_payloads([packet.payload for packet in sent])


def test_identifiers_of_a_lasting_session_are_those_of_what_matches(mqtt: RunningGateway) -> None:
    client, publisher = mqtt.lasting("a"), mqtt.client("p")
    client.subscribe("t/+", qos=1, properties=Properties(subscription_identifiers=(7,)))
    client.subscribe("u", qos=1)
    publisher.publish("t/1", b"1", 1)
    publisher.publish("u", b"2", 1)
    first, second = client.expect_payloads([b"1", b"2"])
    assert first.properties.subscription_identifiers == (7,)
    assert second.properties.subscription_identifiers == ()


def test_versions_get_the_same_message_in_their_own_words(mqtt: RunningGateway) -> None:
    old, new, publisher = mqtt.client("o", V3), mqtt.client("n", V5), mqtt.client("p")
    for client in (old, new):
        client.subscribe("t", qos=1)
    publisher.publish("t", b"x", 1, properties=Properties(content_type="text/plain", user_properties=(("a", "1"),)))
    [with_properties] = new.expect_payloads([b"x"])
    [without] = old.expect_payloads([b"x"])
    assert with_properties.properties == Properties(content_type="text/plain", user_properties=(("a", "1"),))
    assert without.properties == Properties()


def test_a_message_too_large_for_one_receiver_reaches_the_others_and_its_own_successors(mqtt: RunningGateway) -> None:
    small = mqtt.client("s", properties=Properties(maximum_packet_bytes=100))
    large, publisher = mqtt.client("l"), mqtt.client("p")
    for client in (small, large):
        client.subscribe("t", qos=1)
    sent = [Publish("t", b"a", 1, packet_id=1), Publish("t", bytes(200), 1, packet_id=2)]
    publisher.send(*sent, Publish("t", b"b", 1, packet_id=3))
    small.expect_payloads([b"a", b"b"])
    large.expect_payloads([b"a", bytes(200), b"b"])


def test_a_session_that_ended_gets_nothing_and_costs_no_route(mqtt: RunningGateway) -> None:
    client, publisher = mqtt.client("a"), mqtt.client("p")
    client.subscribe("t", qos=1)
    client.disconnect()
    mqtt.until(lambda: mqtt.gateway.counters.subscriptions == 0)
    publisher.publish("t", b"x", 1)
    assert not mqtt.call(lambda: mqtt.topics.router("default").routes([b"t"]))
