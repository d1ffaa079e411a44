"""What a client publishes to settle messages of a queue."""

from __future__ import annotations

import pytest

from penstock.client.mqtt.message import Message
from penstock.client.mqtt.settling import Verdict, settlement
from penstock.codecs.mqtt.properties import Properties
from penstock.core.errors import InvalidArgument


def delivered(offset: int, queue: str = "orders", group: str = "billing") -> Message:
    told = (("message-id", f"{queue}@1:0:{offset}"), ("queue", queue), ("consumer-group", group))
    return Message(f"$queue/{queue}", b"", 1, properties=Properties(user_properties=told))


def test_messages_of_a_group_are_settled_together() -> None:
    packet = settlement(Verdict.ACK, [delivered(1), delivered(2)], None, "")
    assert (packet.topic, packet.qos) == ("$queue/orders/$ack", 1)
    assert packet.properties.user_values("message-id") == ["orders@1:0:1", "orders@1:0:2"]
    assert packet.properties.user_values("consumer-group") == ["billing"]


def test_delay_and_reason_go_along() -> None:
    packet = settlement(Verdict.NACK, [delivered(1)], 1.5, "busy")
    assert packet.topic == "$queue/orders/$nack"
    assert packet.properties.user_values("delay") == ["1500ms"]
    assert packet.properties.user_values("reason") == ["busy"]


def test_a_dead_letter_is_settled_where_it_is() -> None:
    assert settlement(Verdict.REJECT, [delivered(1, "$dlq/orders")], None, "").topic == "$dlq/orders/$reject"


@pytest.mark.parametrize(
    "messages",
    [[], [Message("t", b"")], [delivered(1), delivered(1, "other")], [delivered(1), delivered(1, group="g")]],
)
def test_what_cannot_be_settled_together_is_refused(messages: list[Message]) -> None:
    with pytest.raises(InvalidArgument):
        settlement(Verdict.ACK, messages, None, "")
