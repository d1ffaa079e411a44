"""A client that is there, answers pings and settles nothing: a healthy member gets what it holds."""

from __future__ import annotations

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import BY_ANSWER, EXPLICIT, V3, RunningGateway, consumer, publish, said

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import PubAck, Publish, PubRec
from penstock.codecs.mqtt.properties import Properties

TIMEOUT_S, BACKOFF_S = 30, 1
KEEP_ALIVE_S = 60
ROUNDS = 6
SENT = [b"%d" % number for number in range(24)]


def declared(mqtt: RunningGateway, max_retries: int) -> None:
    policy = {
        "max_retries": max_retries,
        "initial_backoff": f"{BACKOFF_S}s",
        "max_backoff": f"{BACKOFF_S}s",
        "total_timeout": "none",
    }
    mqtt.declare(partitions=4, retry_policy=policy)


def held_by(mqtt: RunningGateway, name: str) -> list[int]:
    """The partitions of a member."""
    return mqtt.call(lambda: shares(mqtt)[name])


def shares(mqtt: RunningGateway) -> dict[str, list[int]]:
    """In the loop."""
    [group] = mqtt.broker.queue("q").groups.values()
    return {each.name: sorted(each.partitions) for each in group.consumers.values()}


def pass_a_timeout(mqtt: RunningGateway) -> None:
    mqtt.advance(TIMEOUT_S)
    mqtt.advance(2 * BACKOFF_S)


def work(mqtt: RunningGateway, client: MqttClient) -> list[bytes]:
    """What comes, settled, until there is no more."""
    done: list[bytes] = []
    while found := [packet for packet in client.came() if isinstance(packet, Publish)]:
        for message in found:
            client.acknowledge(message)
        done += [message.payload for message in found]
        client.ping()
        mqtt.settle()
    return done


def hang(client: MqttClient, *, answering: bool) -> list[Publish]:
    """Alive, and without a settlement: `answering`, with what MQTT wants for each delivery."""
    found = [packet for packet in client.came() if isinstance(packet, Publish)]
    for message in found if answering else []:
        client.send(PubAck(message.packet_id) if message.qos == 1 else PubRec(message.packet_id))
    return found


@pytest.mark.parametrize("max_retries", [0, 1, 2, 10])
@pytest.mark.parametrize(
    ("version", "qos", "properties", "answering"),
    [
        pytest.param(Version.V5, 1, BY_ANSWER, False, id="no PUBACK"),
        pytest.param(Version.V5, 2, BY_ANSWER, False, id="no PUBREC"),
        pytest.param(Version.V5, 1, EXPLICIT, True, id="PUBACK, and nothing at $ack"),
        pytest.param(V3, 1, BY_ANSWER, False, id="MQTT 3.1.1"),
    ],
)
def test_a_healthy_client_gets_what_a_hung_one_never_acknowledges(
    mqtt: RunningGateway, version: Version, qos: int, properties: Properties, answering: bool, max_retries: int
) -> None:
    declared(mqtt, max_retries)
    filter = "$share/g/$queue/q"
    hung = mqtt.client("hung", version, keep_alive_s=KEEP_ALIVE_S)
    hung.subscribe(filter, qos=qos, properties=properties if version is Version.V5 else Properties())
    healthy = consumer(mqtt, "healthy", BY_ANSWER, filter=filter)
    assert (len(held_by(mqtt, "hung")), len(held_by(mqtt, "healthy"))) == (2, 2)
    publish(mqtt, *SENT)
    done: list[bytes] = []
    deliveries = 0
    for _ in range(ROUNDS):
        deliveries += len(hang(hung, answering=answering))
        done += work(mqtt, healthy)
        pass_a_timeout(mqtt)
    done += work(mqtt, healthy)
    assert deliveries > 0
    assert sorted(done, key=int) == SENT
    assert mqtt.messages_in("$dlq$q") == 0
    assert mqtt.unsettled() == 0
    assert (held_by(mqtt, "hung"), held_by(mqtt, "healthy")) == ([], [0, 1, 2, 3])
    hung.ping()


def test_the_hung_client_gets_partitions_again_when_it_acknowledges(mqtt: RunningGateway) -> None:
    declared(mqtt, 10)
    hung, healthy = (consumer(mqtt, name, BY_ANSWER) for name in ("hung", "healthy"))
    publish(mqtt, *SENT)
    kept: list[Publish] = []
    for _ in range(ROUNDS):
        kept += hang(hung, answering=False)
        work(mqtt, healthy)
        pass_a_timeout(mqtt)
    assert held_by(mqtt, "hung") == []
    hung.acknowledge(kept[-1])
    hung.ping()
    mqtt.until(lambda: [len(partitions) for partitions in shares(mqtt).values()] == [2, 2])


def test_a_hung_client_alone_keeps_all_and_loses_it_to_the_first_that_comes(mqtt: RunningGateway) -> None:
    declared(mqtt, 10)
    hung = consumer(mqtt, "hung", BY_ANSWER)
    publish(mqtt, *SENT)
    for _ in range(3):
        hang(hung, answering=False)
        pass_a_timeout(mqtt)
    assert len(held_by(mqtt, "hung")) == 4
    healthy = consumer(mqtt, "healthy", BY_ANSWER)
    mqtt.until(lambda: not shares(mqtt)["hung"])
    mqtt.advance(2 * BACKOFF_S)
    assert sorted(work(mqtt, healthy), key=int) == SENT
    assert mqtt.messages_in("$dlq$q") == 0


def test_a_hung_client_takes_nothing_from_another_group(mqtt: RunningGateway) -> None:
    declared(mqtt, 2)
    hung = consumer(mqtt, "hung", BY_ANSWER)
    other = consumer(mqtt, "other", Properties(user_properties=(("consumer-group", "h"), ("ack-mode", "puback"))))
    publish(mqtt, *SENT)
    found = [packet for packet in other.came() if isinstance(packet, Publish)]
    assert sorted([message.payload for message in found], key=int) == SENT
    assert {said(message)["consumer-group"] for message in found} == {"h"}
    assert hang(hung, answering=False)
