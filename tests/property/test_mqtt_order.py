"""What one client publishes arrives in its order, whatever the receiver subscribed to and how [MQTT-4.6.0-6]."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import V5, RunningGateway, running

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.packets import Publish, Subscription
from penstock.codecs.mqtt.properties import Properties

_MEMORY = Path("/dev/shm")
_examples = count(1)


class Wanted(NamedTuple):
    """How a topic is subscribed to."""

    qos: int
    retain_as_published: bool
    identifier: int | None
    is_shared: bool


class Sent(NamedTuple):
    topic: int
    qos: int
    retain: bool


wanted = st.lists(
    st.builds(Wanted, st.integers(0, 2), st.booleans(), st.none() | st.integers(1, 2), st.booleans()),
    min_size=2,
    max_size=5,
)
sent = st.lists(st.builds(Sent, st.integers(0, 4), st.integers(0, 2), st.booleans()), min_size=2, max_size=30)


@pytest.fixture(scope="module")
def mqtt() -> Iterator[RunningGateway]:
    with (
        tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory,
        running(Path(directory)) as made,
    ):
        yield made


def subscribe(client: MqttClient, prefix: str, subscriptions: list[Wanted]) -> None:
    for topic, (qos, retain_as_published, identifier, is_shared) in enumerate(subscriptions):
        said = Properties(subscription_identifiers=() if identifier is None else (identifier,))
        share = "$share/g/" if is_shared else ""
        client.subscribe(
            Subscription(f"{share}{prefix}/{topic}", qos, retain_as_published=retain_as_published), properties=said
        )


def packets(prefix: str, messages: list[Sent], topics: int) -> list[Publish]:
    return [
        Publish(f"{prefix}/{topic % topics}", b"%d" % number, qos, retain, packet_id=number + 1 if qos else 0)
        for number, (topic, qos, retain) in enumerate(messages)
    ]


def check(mqtt: RunningGateway, client: MqttClient, subscriptions: list[Wanted], messages: list[Sent], at: int) -> None:
    """All of it in two pieces, which may part a packet."""
    prefix, publisher = f"o{next(_examples)}", mqtt.client("publisher")
    subscribe(client, prefix, subscriptions)
    published = packets(prefix, messages, len(subscriptions))
    data = b"".join(encode(packet, V5) for packet in published)
    publisher.send_raw(data[: at % len(data)])
    publisher.send_raw(data[at % len(data) :])
    client.expect_payloads([packet.payload for packet in published])
    client.close()
    publisher.close()


@given(subscriptions=wanted, messages=sent, at=st.integers(0, 1000), aliases=st.sampled_from([None, 1, 10]))
def test_a_client_with_different_subscriptions_gets_messages_in_their_order(
    mqtt: RunningGateway, subscriptions: list[Wanted], messages: list[Sent], at: int, aliases: int | None
) -> None:
    client = mqtt.client("receiver", properties=Properties(topic_alias_maximum=aliases))
    check(mqtt, client, subscriptions, messages, at)


@given(subscriptions=wanted, messages=sent, at=st.integers(0, 1000))
def test_a_lasting_session_gets_messages_in_their_order(
    mqtt: RunningGateway, subscriptions: list[Wanted], messages: list[Sent], at: int
) -> None:
    client = mqtt.lasting(f"lasting-{next(_examples)}")
    check(mqtt, client, subscriptions, messages, at)
