"""Queues that are in memory alone, as MQTT has them: like any other, and nothing of them is stored."""

from __future__ import annotations

from tests.support.mqtt_gateway import RunningGateway, consumer
from tests.support.volatile import declared


def test_mqtt_publishes_and_consumes(mqtt: RunningGateway) -> None:
    queue = mqtt.call(lambda: declared(mqtt.broker, "q"))
    frames = mqtt.call(lambda: mqtt.broker.shard.metrics.frames)
    publisher = mqtt.client("p")
    for number in range(3):
        publisher.publish("$queue/q", b"%d" % number, 1)
    assert mqtt.call(lambda: (queue.units[0].data.end, mqtt.broker.shard.metrics.frames)) == (3, frames)
    consumer(mqtt, "member").expect_payloads([b"0", b"1", b"2"])
