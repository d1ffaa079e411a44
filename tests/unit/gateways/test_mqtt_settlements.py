"""Settling by publishing to `$queue/…/$ack`, `$nack` and `$reject`."""

from __future__ import annotations

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import V3, RunningGateway, said, user

from penstock.codecs.mqtt.packets import PubAck, Publish
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

STALE = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
WRONG = ReasonCode.TOPIC_NAME_INVALID
DONE = ReasonCode.SUCCESS


def taken(mqtt: RunningGateway, count: int = 1, **settings: object) -> tuple[MqttClient, list[Publish]]:
    """A consumer of a queue with so many messages in hand, acknowledged and not settled."""
    mqtt.declare("q", **settings)
    client, publisher = mqtt.client("c"), mqtt.client("p")
    client.subscribe("$queue/q", qos=1, properties=user(consumer_group="g"))
    for i in range(count):
        publisher.publish("$queue/q", str(i).encode(), 1)
    return client, [client.expect_message() for _ in range(count)]


def settle(client: MqttClient, verb: str, properties: Properties, path: str = "$queue/q") -> ReasonCode:
    packet_id = client.next_id()
    client.send(Publish(f"{path}/${verb}", b"", 1, packet_id=packet_id, properties=properties))
    answer = answer_of(client)
    assert answer.packet_id == packet_id
    return answer.reason


def answer_of(client: MqttClient) -> PubAck:
    """What comes back at once may overtake it, and is kept for the test."""
    overtook = []
    while not isinstance(packet := client.receive(), PubAck):
        overtook.append(packet)
    client._set_aside.extend(overtook)
    return packet


def named(*messages: Publish) -> tuple[tuple[str, str], ...]:
    return tuple(("message-id", said(message)["message-id"]) for message in messages)


def test_an_ack_names_one_message_or_several(mqtt: RunningGateway) -> None:
    client, messages = taken(mqtt, 3)
    assert settle(client, "ack", user(*named(messages[1]))) is DONE
    assert mqtt.unsettled() == 2
    assert settle(client, "ack", user(*named(messages[0], messages[2]))) is DONE
    assert mqtt.unsettled() == 0


def test_an_ack_may_name_partition_and_offset_under_any_path_of_the_queue(mqtt: RunningGateway) -> None:
    client, [message] = taken(mqtt)
    place = user(partition=said(message)["partition"], offset=said(message)["offset"])
    assert settle(client, "ack", place, "$queue/q/eu/de") is DONE
    assert mqtt.unsettled() == 0


def test_what_is_settled_already_is_stale_and_changes_nothing(mqtt: RunningGateway) -> None:
    client, [message] = taken(mqtt)
    assert settle(client, "ack", user(*named(message))) is DONE
    for verb in ("ack", "nack", "reject"):
        assert settle(client, verb, user(*named(message))) is STALE
    assert mqtt.messages_in("$dlq/q") == 0


def test_what_another_member_holds_is_not_ones_own_to_settle(mqtt: RunningGateway) -> None:
    client, [message] = taken(mqtt)
    other = mqtt.client("other")
    other.subscribe("$queue/q", qos=1, properties=user(consumer_group="g"))
    assert settle(other, "ack", user(*named(message))) is STALE
    assert settle(client, "ack", user(*named(message))) is DONE


def test_a_client_that_consumes_nothing_names_the_group(mqtt: RunningGateway) -> None:
    _, [message] = taken(mqtt)
    other = mqtt.client("other")
    assert settle(other, "ack", user(*named(message))) is WRONG
    assert settle(other, "ack", user(*named(message), consumer_group="g")) is DONE
    assert mqtt.unsettled() == 0


def test_settlements_of_one_receive_are_answered_each_for_itself(mqtt: RunningGateway) -> None:
    client, messages = taken(mqtt, 3)
    assert settle(client, "ack", user(*named(messages[0]))) is DONE
    wrong = (("message-id", "nonsense"),)
    asked = [named(messages[0]), wrong, named(messages[1]), (), named(messages[2])]
    client.send(
        *[Publish("$queue/q/$ack", b"", 1, packet_id=100 + i, properties=user(*a)) for i, a in enumerate(asked)]
    )
    answers = [client.expect(PubAck) for _ in asked]
    assert [answer.packet_id for answer in answers] == [100, 101, 102, 103, 104]
    assert [answer.reason for answer in answers] == [STALE, WRONG, DONE, WRONG, DONE]
    assert mqtt.unsettled() == 0


@pytest.mark.parametrize("at_once", [False, True])
def test_a_settlement_makes_room_for_what_comes_behind_it_and_not_before(mqtt: RunningGateway, at_once: bool) -> None:
    client, [message] = taken(mqtt, limits={"max_queue_depth": 1})
    packets = [
        Publish("$queue/q", b"too early", 1, packet_id=101),
        Publish("$queue/q/$ack", b"", 1, packet_id=102, properties=user(*named(message))),
        Publish("$queue/q", b"in time", 1, packet_id=103),
    ]
    for some in [packets] if at_once else [[packet] for packet in packets]:
        client.send(*some)
    answers = [answer_of(client) for _ in packets]
    assert [answer.reason for answer in answers] == [ReasonCode.QUOTA_EXCEEDED, DONE, DONE]


@pytest.mark.parametrize("at_once", [False, True])
def test_what_a_failure_takes_back_is_stale_for_settlements_behind_it(mqtt: RunningGateway, at_once: bool) -> None:
    mqtt.declare("q")
    client, publisher = mqtt.client("c"), mqtt.client("p")
    client.subscribe("$queue/q", qos=1, properties=user(consumer_group="g"))
    for i in range(3):
        publisher.publish("$queue/q", b"%d" % i, 1, properties=user(partition_key="k"))
    messages = [client.expect_message() for _ in range(3)]
    packets = [
        Publish(f"$queue/q/${verb}", b"", 1, packet_id=100 + i, properties=user(*named(messages[i])))
        for i, verb in enumerate(("ack", "nack", "ack"))
    ]
    for some in [packets] if at_once else [[packet] for packet in packets]:
        client.send(*some)
    assert [answer_of(client).reason for _ in packets] == [DONE, DONE, STALE]


def test_a_client_with_two_filters_settles_each_message_in_the_group_it_came_from(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    client, publisher = mqtt.client("c"), mqtt.client("p")
    client.subscribe("$queue/q/eu/#", "$queue/q/us/#", qos=1, properties=user(consumer_group="g"))
    messages = []
    for region in ("eu", "us", "eu"):
        publisher.publish(f"$queue/q/{region}/1", region.encode(), 1)
        messages.append(client.expect_message())
    for message in messages:
        assert settle(client, "ack", user(*named(message))) is DONE
    assert settle(client, "ack", user(*named(messages[1]))) is STALE


@pytest.mark.parametrize("delay", ["0", "0s"])
def test_a_nack_without_delay_brings_the_message_back_at_once(mqtt: RunningGateway, delay: str) -> None:
    client, [message] = taken(mqtt)
    assert settle(client, "nack", user(*named(message), delay=delay)) is DONE
    again = client.expect_message()
    assert (again.payload, said(again)["delivery-count"]) == (b"0", "2")
    assert settle(client, "ack", user(*named(again))) is DONE


def test_a_nack_brings_the_message_back_after_its_delay_or_the_backoff(mqtt: RunningGateway) -> None:
    client, messages = taken(mqtt, 2, retry_policy={"initial_backoff": "100s", "max_backoff": "100s"})
    publisher = mqtt.client("p2")
    assert settle(client, "nack", user(*named(messages[0]), delay="30s")) is DONE
    assert settle(client, "nack", user(*named(messages[1]))) is DONE
    client.expect_nothing_from(publisher)
    mqtt.advance(31)
    assert client.expect_message().payload == b"0"
    client.expect_nothing_from(publisher)
    mqtt.advance(70)
    assert client.expect_message().payload == b"1"


def test_too_many_nacks_end_among_the_dead_letters(mqtt: RunningGateway) -> None:
    client, [message] = taken(mqtt, retry_policy={"max_retries": 2})
    for _ in range(2):
        assert settle(client, "nack", user(*named(message), delay="0")) is DONE
        message = client.expect_message()
    assert settle(client, "nack", user(*named(message), delay="0", reason="broken")) is DONE
    mqtt.settle()
    assert (mqtt.unsettled(), mqtt.messages_in("$dlq/q")) == (0, 1)


def test_a_rejected_message_is_moved_with_its_reason(mqtt: RunningGateway) -> None:
    client, [message] = taken(mqtt)
    assert settle(client, "reject", user(*named(message), reason="cannot be read")) is DONE
    assert mqtt.unsettled() == 0
    client.subscribe("$dlq/q", qos=1, properties=user(consumer_group="d"))
    letter = client.expect_message()
    assert letter.payload == b"0"
    assert "cannot be read" in said(letter).values()
    assert settle(client, "ack", user(*named(letter)), "$dlq/q") is DONE
    assert mqtt.unsettled("$dlq/q", "d") == 0


@pytest.mark.parametrize(
    "properties",
    [
        Properties(),
        user(reason="no message"),
        user(message_id="q@1"),
        user(message_id="other@1:0:0"),
        user(message_id="q@99:0:0"),
        user(message_id="q@1:77:0"),
        user(partition="0"),
        user(partition="0", offset="x"),
        user(partition="0", offset="9" * 30),
        user(partition="0", offset="9" * 5000),
        user(partition="9" * 30, offset="0"),
        user(partition="0", offset="0", delay="soon"),
        user(partition="0", offset="0", consumer_group="nobody"),
    ],
)
def test_what_cannot_be_read_is_refused_and_the_client_goes_on(mqtt: RunningGateway, properties: Properties) -> None:
    client, [message] = taken(mqtt)
    assert settle(client, "nack", properties).is_refusal
    assert settle(client, "ack", user(*named(message))) is DONE


def test_a_delay_longer_than_any_queue_waits_is_refused_or_waited_for(mqtt: RunningGateway) -> None:
    client, [message] = taken(mqtt)
    settle(client, "nack", user(*named(message), delay="999999999999999999w"))
    client.ping()


def test_settling_a_queue_that_is_not_there_is_refused(mqtt: RunningGateway) -> None:
    client, [message] = taken(mqtt)
    assert settle(client, "ack", user(*named(message)), "$queue/none") is WRONG
    assert {queue.name for queue in mqtt.broker.queues} == {"q"}


def test_in_3_1_1_a_settlement_cannot_be_said_and_closes(mqtt: RunningGateway) -> None:
    taken(mqtt)
    client = mqtt.client("old", V3)
    client.send(Publish("$queue/q/$ack", b"", 1, packet_id=1))
    client.expect_closed()


def test_what_failed_meanwhile_is_stale_for_its_first_holder(mqtt: RunningGateway) -> None:
    client, [message] = taken(mqtt, performance={"delivery_timeout": "10s"})
    other = mqtt.client("other")
    mqtt.advance(11)
    assert settle(client, "ack", user(*named(message))) is STALE
    other.ping()
