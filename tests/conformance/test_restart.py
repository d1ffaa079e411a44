"""What a session and a retained message are worth when the server is stopped and started again, chapter 4.1."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.scene import Scene
from tests.support.servers import SERVERS

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import PubComp, Publish, PubRec, PubRel


def test_mqtt_4_1_0_1_session_state_outlives_a_restart(server_name: str, version: Version, tmp_path: Path) -> None:
    """[MQTT-4.1.0-1] [MQTT-3.1.2-23] [MQTT-4.4.0-1] in 5.0, [MQTT-4.1.0-1] [MQTT-3.1.2-4] [MQTT-3.1.2-5] in 3.1.1:
    subscriptions, messages that wait, exchanges under way in both directions; and retained messages beside them."""
    with SERVERS[server_name](tmp_path) as running:
        before = Scene(running, version)
        packet_ids = _leave(before)
    with SERVERS[server_name](tmp_path) as running:
        after = Scene(running, version, number=before.number)
        _come_back(after, *packet_ids)
        after.close()


def _leave(scene: Scene) -> tuple[int, int]:
    """Packet identifiers of a message that was not acknowledged, and of one that was received but not completed."""
    publisher = scene.client("pub")
    publisher.publish("kept", b"retained", 1, retain=True)
    unacknowledged, uncompleted, waiting = scene.lasting("a"), scene.lasting("b"), scene.lasting("c")
    for session in (unacknowledged, uncompleted, waiting):
        session.subscribe("t", qos=2)
    watching = scene.lasting("d")
    watching.subscribe("elsewhere", qos=2)
    watching.disconnect()
    waiting.send(Publish("elsewhere", b"from the client", 2, packet_id=77))
    waiting.expect(PubRec)
    waiting.disconnect()
    publisher.publish("t", b"1", 2)
    first = unacknowledged.expect(Publish).packet_id
    second = uncompleted.expect(Publish).packet_id
    uncompleted.send(PubRec(second))
    uncompleted.expect(PubRel)
    scene.close()
    return first, second


def _come_back(scene: Scene, unacknowledged_id: int, uncompleted_id: int) -> None:
    watching, publisher = scene.lasting("d"), scene.client("pub")
    assert scene.subscriber("kept", name="late").expect_message().payload == b"retained"
    unacknowledged, uncompleted, waiting = scene.lasting("a"), scene.lasting("b"), scene.lasting("c")
    assert all(session.connack.session_present for session in (unacknowledged, uncompleted, waiting))
    message = unacknowledged.expect_message()
    assert (message.packet_id, message.dup, message.payload) == (unacknowledged_id, True, b"1")
    assert uncompleted.expect(PubRel).packet_id == uncompleted_id
    uncompleted.send(PubComp(uncompleted_id))
    assert waiting.expect_message().payload == b"1"
    waiting.send(Publish("elsewhere", b"from the client", 2, dup=True, packet_id=77))
    waiting.expect(PubRec)
    waiting.send(PubRel(77))
    waiting.expect(PubComp)
    watching.expect_payloads([b"from the client"])
    watching.expect_nothing_from(publisher)
    publisher.publish("t", b"2", 2)
    for session in (unacknowledged, uncompleted, waiting):
        assert session.expect_message().payload == b"2"
