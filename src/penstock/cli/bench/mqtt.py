"""Loads of the MQTT listeners."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from penstock.cli.bench.load import Arrivals, Load, Result, Share, measured
from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.options import MqttOptions
from penstock.codecs.mqtt.properties import Properties

_GROUP = "mqtt-consume"


async def publish(options: MqttOptions, load: Load) -> Result:
    """QoS 1, to the queue: each acknowledgement says that a message is on disk."""
    topic, value = f"$queue/{load.queue}", load.value.encode()

    async def work(share: Share) -> None:
        async with _connection(options, load) as client:
            room = asyncio.Semaphore(load.batch)
            under_way: set[asyncio.Task[None]] = set()
            while share.take(1):
                await room.acquire()
                task = asyncio.ensure_future(_publish_one(client, topic, value, share, room))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            await asyncio.gather(*under_way)

    return await measured("mqtt-publish", load, work)


async def consume(options: MqttOptions, load: Load) -> Result:
    """Messages that are there are taken by members of one group, QoS 1; PUBACK settles each."""
    wanted = Properties(user_properties=(("consumer-group", _GROUP), ("ack-mode", "puback")))

    async def work(share: Share) -> None:
        async with _connection(options, load) as client:
            await client.subscribe(f"$queue/{load.queue}", qos=1, properties=wanted)
            arrivals = Arrivals(share, load.batch)
            async for _ in client.messages():
                arrivals.note()

    return await measured("mqtt-consume", load, work)


def _connection(options: MqttOptions, load: Load) -> AsyncMqttClient:
    return AsyncMqttClient(replace(options, client_id="", reconnect=None, max_buffered_messages=load.batch))


async def _publish_one(
    client: AsyncMqttClient, topic: str, value: bytes, share: Share, room: asyncio.Semaphore
) -> None:
    begun_s = time.perf_counter()
    try:
        await (await client.begin_publish(topic, value, qos=1))
        share.note(begun_s, 1)
    finally:
        room.release()
