"""The benchmarks of the MQTT server, in the order in which they are run."""

from __future__ import annotations

from bench.mqtt import connecting, durable, latency, pubsub

BENCHMARKS = (
    durable.PUBLISH,
    durable.PATH,
    pubsub.ONE_TO_ONE,
    pubsub.FAN_OUT,
    pubsub.WINDOW_1,
    latency.BENCHMARK,
    connecting.CONNECTS,
    connecting.IDLE,
)
