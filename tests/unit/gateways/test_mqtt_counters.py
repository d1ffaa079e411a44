"""What the gateway counts is what happened."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.metrics import Read, of, scrape
from tests.support.mqtt_gateway import V3, V5, RunningGateway, Setup, running

from penstock.broker.auth.options import RateLimitOptions
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.packets import PubAck, Publish
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.metrics import ReloadMetrics
from penstock.gateways.mqtt.options import MqttOptions
from penstock.telemetry.sources import MetricSources


def test_connections_are_counted_by_protocol(mqtt: RunningGateway) -> None:
    mqtt.client("a", V5)
    mqtt.client("b", V3)
    mqtt.client("c", V3)
    found = mqtt.call(mqtt.gateway.counters.connections)
    assert found == {"mqtt-5": 1, "mqtt-3.1.1": 2, "mqtt-connecting": 0}


def test_messages_and_bytes_are_counted_both_ways(mqtt: RunningGateway) -> None:
    subscriber, publisher = mqtt.client("s", V5), mqtt.client("p", V5)
    subscriber.subscribe("t/#", qos=1)
    before = mqtt.call(lambda: mqtt.gateway.counters.received_bytes)
    packet = Publish("t/1", b"x" * 100, qos=1, packet_id=1)
    publisher.send(packet)
    assert isinstance(publisher.receive(), PubAck)
    assert isinstance(subscriber.receive(), Publish)
    counters = mqtt.gateway.counters
    assert mqtt.call(lambda: (counters.received, counters.sent)) == (1, 1)
    assert mqtt.call(lambda: counters.received_bytes) - before >= len(encode(packet, V5))
    assert mqtt.call(lambda: counters.sent_bytes) > 100


def test_what_was_sent_is_counted_after_the_client_is_gone(mqtt: RunningGateway) -> None:
    subscriber, publisher = mqtt.client("s", V5), mqtt.client("p", V5)
    subscriber.subscribe("t")
    publisher.send(Publish("t", b"x", qos=0))
    assert isinstance(subscriber.receive(), Publish)
    subscriber.close()
    mqtt.left_with(1)
    assert mqtt.call(lambda: mqtt.gateway.counters.sent) == 1


def test_refusals_are_counted_by_what_the_publisher_was_told(mqtt: RunningGateway) -> None:
    client = mqtt.client("p", V5)
    client.send(Publish("$SYS/mine", b"x", qos=1, packet_id=1))
    answer = client.receive()
    assert isinstance(answer, PubAck) and answer.reason is ReasonCode.NOT_AUTHORIZED
    assert mqtt.call(lambda: mqtt.gateway.counters.refused) == {"not-authorized": 1}


def test_whoever_is_slowed_down_is_counted() -> None:
    rates = RateLimitOptions(max_messages_per_client=1000, message_burst_size=1)
    setup = Setup(MqttOptions(sys_interval_s=0), rates=rates, is_loopback=False)
    with tempfile.TemporaryDirectory() as directory, running(Path(directory), setup) as mqtt:
        client = mqtt.client("p", V5)
        for number in range(1, 6):
            client.send(Publish("t", b"x", qos=1, packet_id=number))
        for _ in range(5):
            assert isinstance(client.receive(), PubAck)
        assert mqtt.call(lambda: mqtt.gateway.counters.throttled["message-rate"]) >= 1


def test_the_page_of_metrics_has_what_the_gateway_counts(mqtt: RunningGateway) -> None:
    client = mqtt.client("p", V5)
    client.send(Publish("$queue/orders", b"x", qos=1, packet_id=1))
    assert isinstance(client.receive(), PubAck)
    gateway = mqtt.gateway

    async def page() -> Read:
        sources = MetricSources(
            broker=mqtt.broker,
            access=mqtt.access,
            limits=mqtt.limits,
            sessions=mqtt.topics.sessions,
            retained=mqtt.retained,
            connections=gateway.counters.connections,
            protocols={"mqtt": gateway.counters},
            reloads=ReloadMetrics(),
            started_ms=0,
        )
        return await scrape(sources)

    found = mqtt.wait(page())
    assert of(found, "penstock_broker_connections", protocol="mqtt-5") == 1
    assert of(found, "penstock_broker_messages_received_total", protocol="mqtt") == 1
    assert of(found, "penstock_broker_bytes_received_total", protocol="mqtt") > 0
    assert of(found, "mqtt_queue_enqueue_total", queue="$queue/orders") == 1
    assert of(found, "penstock_broker_publish_latency_seconds_count") == 1
