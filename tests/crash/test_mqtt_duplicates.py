"""What a killed server had sent with QoS 1 comes again with DUP, however often it is killed before
the client is back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.crash.mqtt_rounds import MqttFire
from tests.support.faults import kill
from tests.support.mqtt_client import MqttClient

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import PubAck, Publish
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("kills", [1, 2])
def test_mqtt_3_3_1_1_a_message_that_a_killed_server_had_sent_comes_again_with_dup(
    tmp_path: Path, version: Version, kills: int
) -> None:
    fire = MqttFire(tmp_path, seed=1)
    process = fire.start(tmp_path / "data")
    try:
        asyncio.run(fire.until_ready(process))
        session = connected(fire, version)
        session.subscribe("t", qos=1)
        session.publish("t", b"settled", 1)
        session.acknowledge(session.expect(Publish))
        session.publish("t", b"sent", 1)
        assert not session.expect(Publish).dup
        for _ in range(kills):
            kill(process)
            session.close()
            process = fire.start(tmp_path / "data")
            asyncio.run(fire.until_ready(process))
        publisher = MqttClient(fire.load.address, version, "publisher")
        publisher.connect()
        publisher.publish("t", b"later", 1)
        back = connected(fire, version)
        found = [back.expect(Publish) for _ in range(2)]
        if found[0].payload == b"settled":  # its acknowledgement may not have been on disk
            assert found[0].dup
            found = [found[1], back.expect(Publish)]
        assert [(message.payload, message.dup) for message in found] == [(b"sent", True), (b"later", False)]
        for message in found:
            back.send(PubAck(message.packet_id))
        back.close()
        publisher.close()
    finally:
        kill(process)


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("kills", [1, 2])
def test_mqtt_4_6_0_1_what_a_killed_server_had_sent_comes_again_in_the_order_in_which_it_was_sent(
    tmp_path: Path, version: Version, kills: int
) -> None:
    """[MQTT-4.4.0-1] QoS 2 keeps its packet identifiers; those of QoS 1 are new to the client."""
    fire = MqttFire(tmp_path, seed=1)
    process = fire.start(tmp_path / "data")
    try:
        asyncio.run(fire.until_ready(process))
        session = connected(fire, version)
        session.subscribe("one", qos=1)
        session.subscribe("two", qos=2)
        publisher = MqttClient(fire.load.address, version, "publisher")
        publisher.connect()
        sent = []
        for number, topic in enumerate(["one", "one", "two", "one"]):
            publisher.publish(topic, b"%d" % number, 2)
            sent.append(session.expect(Publish))
        for _ in range(kills):
            kill(process)
            session.close()
            process = fire.start(tmp_path / "data")
            asyncio.run(fire.until_ready(process))
            session = connected(fire, version)
            again = [session.expect(Publish) for _ in sent]
            assert [(message.payload, message.dup) for message in again] == [(b"%d" % one, True) for one in range(4)]
            assert again[2].packet_id == sent[2].packet_id
            known = {message.packet_id for message in sent}
            assert not known & {again[place].packet_id for place in (0, 1, 3)}
        publisher.close()
        session.close()
    finally:
        kill(process)


def connected(fire: MqttFire, version: Version) -> MqttClient:
    client = MqttClient(fire.load.address, version, "session")
    said = Properties(session_expiry_interval_s=3600) if version is Version.V5 else NO_PROPERTIES
    client.connect(clean=False, properties=said)
    return client
