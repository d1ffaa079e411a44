"""What a will may be: a message that its client may publish, when it connects and when it is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import LONG_S, V3, V5, RunningGateway, Setup, running

from penstock.broker.auth.options import AuthOptions
from penstock.broker.auth.rules import Action, Effect, Rule, rule
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Will
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode

PASSWORD = b"wonderland"
LASTING = Properties(session_expiry_interval_s=LONG_S)
DELAYED = Properties(will_delay_interval_s=30)


@pytest.fixture
def mqtt(tmp_path: Path) -> Iterator[RunningGateway]:
    with running(tmp_path, Setup(auth=AuthOptions())) as made:
        made.wait(made.access.users.add("root", PASSWORD, roles=["admin"]))
        made.wait(made.access.users.add("ann", PASSWORD))
        for action, pattern in ((Action.PUBLISH, "#"), (Action.SUBSCRIBE, "#"), (Action.CONSUME, "orders")):
            made.wait(made.access.users.add_rule(_rule(action, pattern)))
        made.declare("orders")
        yield made


def _rule(action: Action, pattern: str, effect: Effect = Effect.ALLOW) -> Rule:
    return rule(effect, action, pattern, user="ann")


def came(mqtt: RunningGateway, name: str, user: str, will: Will, properties: Properties = NO_PROPERTIES) -> MqttClient:
    return mqtt.client(name, username=user, password=PASSWORD, will=will, properties=properties)


@pytest.mark.parametrize("user", ["ann", "root"])
@pytest.mark.parametrize("version", [V3, V5])
@pytest.mark.parametrize(
    "topic", ["$queue/orders/$ack", "$queue/orders/$nack", "$dlq/orders/$reject", "$admin/queue/create", "$SYS/x"]
)
def test_a_will_neither_settles_nor_asks_nor_is_the_brokers_own(
    mqtt: RunningGateway, user: str, version: Version, topic: str
) -> None:
    client = mqtt.opened("c", version)
    answer = client.connect(username=user, password=PASSWORD, will=Will(topic, b"x"))
    assert answer.reason is (ReasonCode.TOPIC_NAME_INVALID if version is V5 else ReasonCode.NOT_AUTHORIZED)
    assert mqtt.messages_in("orders") == 0


@pytest.mark.parametrize("how", ["ends with its connection", "is kept", "is kept over a restart"])
def test_a_will_is_published_only_while_its_client_may(mqtt: RunningGateway, how: str) -> None:
    properties = NO_PROPERTIES if how == "ends with its connection" else LASTING
    will = Will("last/words", b"gone", properties=DELAYED if properties is LASTING else NO_PROPERTIES)
    for name, is_allowed in (("told", True), ("silent", False)):
        client = came(mqtt, name, "ann", will, properties)
        if how == "is kept over a restart":
            client.cut()
            mqtt.left_with(0)
            mqtt.restart()
        if not is_allowed:
            mqtt.wait(mqtt.access.users.add_rule(_rule(Action.PUBLISH, "last/#", Effect.DENY)))
        watcher = mqtt.client("watcher", username="root", password=PASSWORD)
        watcher.subscribe("last/#")
        if how != "is kept over a restart":
            client.cut()
            mqtt.left_with(1)
        mqtt.advance(31)
        if is_allowed:
            assert watcher.expect_message().payload == b"gone"
        else:
            watcher.ping()
        watcher.close()
        mqtt.left_with(0)
