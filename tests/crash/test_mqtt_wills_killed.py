"""A will that its server died before: published by the next one, once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.crash.mqtt_rounds import MqttFire
from tests.support.faults import kill
from tests.support.mqtt_client import MqttClient

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import PubComp, Publish, PubRel, Will
from penstock.codecs.mqtt.properties import Properties

pytestmark = pytest.mark.faults

LONG = Properties(session_expiry_interval_s=3600)


def test_the_will_of_a_session_outlives_a_killed_server_and_comes_once(tmp_path: Path) -> None:
    fire = MqttFire(tmp_path, seed=1)
    for round_number in range(3):
        process = fire.start(tmp_path / "data")
        try:
            asyncio.run(fire.until_ready(process))
            heir = MqttClient(fire.load.address, Version.V5, "heir")
            assert heir.connect(clean=False, properties=LONG).session_present == (round_number > 0)
            if round_number == 0:
                heir.subscribe("will", qos=2)
                doomed = MqttClient(fire.load.address, Version.V5, "doomed")
                doomed.connect(will=Will("will", b"gone", 2), properties=LONG)
            elif round_number == 1:
                assert heir.expect_message().payload == b"gone"
                doomed.close()
            else:
                other = MqttClient(fire.load.address, Version.V5, "other")
                other.connect()
                other.publish("will", b"another", 2)
                assert _next_message(heir).payload == b"another"
                other.close()
            heir.close()
        finally:
            kill(process)


def _next_message(client: MqttClient) -> Publish:
    """Past a PUBREL that the client has answered before: of that the server may not have known any more."""
    packet = client.receive()
    while isinstance(packet, PubRel):
        client.send(PubComp(packet.packet_id))
        packet = client.receive()
    assert isinstance(packet, Publish)
    return packet
