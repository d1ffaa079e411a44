"""PINGREQ and keep alive, chapters 3.12 and 3.1.2.10. The times are as short as the protocol allows."""

from __future__ import annotations

import time

import pytest
from tests.conformance.scene import Scene
from tests.support.mqtt_client import messages_of

from penstock.codecs.mqtt.packets import Packet, PingReq, PingResp, Will
from penstock.codecs.mqtt.reasons import ReasonCode

KEEP_ALIVE_S = 2
SILENT = ("silent", "receiving")
STEP_S = 0.3
"""far below the keep alive, so that a slow machine has time to spare"""


def test_mqtt_3_12_4_1_pingreq_is_answered_with_pingresp(scene: Scene) -> None:
    """[MQTT-3.12.4-1] in both versions: each of them."""
    client = scene.client()
    client.send(PingReq(), PingReq(), PingReq())
    for _ in range(3):
        client.expect(PingResp)


def test_mqtt_3_1_2_22_silence_for_one_and_a_half_keep_alives_closes(scene: Scene) -> None:
    """[MQTT-3.1.2-22] [MQTT-3.1.2-20] in 5.0, [MQTT-3.1.2-24] [MQTT-3.1.2-23] in 3.1.1: as if the network had failed,
    so the will is published. What the server sends does not count: one client gets messages all the time. Any packet
    of the client does: one pings, one publishes. And one with keep alive 0 is not watched."""
    kept = {name: scene.client(name, keep_alive_s=KEEP_ALIVE_S) for name in ("pinging", "publishing")}
    unwatched = scene.client("unwatched", keep_alive_s=0)
    watcher, wills = scene.subscriber(scene.topic("w", "+")), list[Packet]()
    silent = [
        scene.client(name, keep_alive_s=KEEP_ALIVE_S, will=Will(scene.topic("w", name), b"gone")) for name in SILENT
    ]
    silent[1].subscribe(scene.topic("a"))
    deadline = time.monotonic() + 2 * scene.deadline_s
    while len(wills) < 2 and time.monotonic() < deadline:
        time.sleep(STEP_S)
        kept["pinging"].ping()
        kept["publishing"].publish(scene.topic("a"), b"x")
        wills += watcher.came()
    assert {message.topic for message in messages_of(wills)} == {
        scene.topic("w", "silent"),
        scene.topic("w", "receiving"),
    }
    for client in silent:
        scene.expect_refused(client, ReasonCode.KEEP_ALIVE_TIMEOUT)
    for client in (*kept.values(), unwatched):
        client.ping()


@pytest.mark.parametrize("raw", [b"\xc1\x00", b"\xc8\x00", b"\xc0\x01\x00"], ids=["flag0", "flag3", "body"])
def test_mqtt_2_1_3_1_a_ping_with_flags_or_a_body_closes(scene: Scene, raw: bytes) -> None:
    """[MQTT-2.1.3-1] in 5.0, [MQTT-2.2.2-2] in 3.1.1."""
    client = scene.client()
    client.send_raw(raw)
    scene.expect_refused(client, ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR)
