"""What `penstock bench` does to a server, and how long that took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import msgspec

from penstock.client.http.async_client import AsyncClient
from penstock.client.http.intake import ConsumeOptions
from penstock.client.http.settlements import settlement
from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.options import MqttOptions

GROUP = "bench"
_WAIT_S = 1.0
_ACK = ("ack", None, None, None)
_PERCENTS = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}


@dataclass(frozen=True, slots=True)
class Load:
    queue: str
    messages: int
    size_bytes: int
    connections: int
    batch: int
    """messages of a request; of MQTT, those of a connection that are not acknowledged yet"""

    @property
    def value(self) -> str:
        return "x" * self.size_bytes


class Result(msgspec.Struct, frozen=True):
    """`latency_ms` is that of a request, of MQTT that of a message."""

    kind: str
    messages: int
    size_bytes: int
    connections: int
    batch: int
    seconds: float
    messages_per_s: float
    latency_ms: dict[str, float]


Run = Callable[["Share"], Awaitable[None]]


class Share:
    """What is left to do, shared by all connections; and how long each step took."""

    def __init__(self, messages: int) -> None:
        self._left = messages
        self.done = 0
        self.latencies_s: list[float] = []
        self.last_s = time.perf_counter()
        """when something was done last: to find out that nothing is left takes a while, and is no work"""

    def take(self, most: int) -> int:
        count = min(self._left, most)
        self._left -= count
        return count

    def note(self, begun_s: float, messages: int) -> None:
        self.last_s = time.perf_counter()
        self.latencies_s.append(self.last_s - begun_s)
        self.done += messages


async def http_publish(client: AsyncClient, load: Load) -> Result:
    """Each answer says that its messages are on disk."""
    values = [load.value] * load.batch

    async def work(share: Share) -> None:
        while count := share.take(load.batch):
            begun_s = time.perf_counter()
            await client.publish_many(load.queue, values[:count])
            share.note(begun_s, count)

    return await _measured("http-publish", load, work)


async def http_receive(client: AsyncClient, load: Load) -> Result:
    """Messages that are there are taken and acknowledged."""
    options = ConsumeOptions(load.queue, GROUP, max=load.batch, wait_s=_WAIT_S)

    async def work(share: Share) -> None:
        while share.done < load.messages:
            begun_s = time.perf_counter()
            messages = (await client.ask(options.receive())).messages
            if not messages:
                return
            await client.ask(settlement(_ACK, [message.receipt or "" for message in messages]))
            share.note(begun_s, len(messages))

    return await _measured("http-receive", load, work)


async def mqtt_publish(options: MqttOptions, load: Load) -> Result:
    """QoS 1, to the queue: each acknowledgement says that a message is on disk."""
    topic, value = f"$queue/{load.queue}", load.value.encode()

    async def work(share: Share) -> None:
        async with AsyncMqttClient(replace(options, client_id="", reconnect=None)) as client:
            room = asyncio.Semaphore(load.batch)
            under_way: set[asyncio.Task[None]] = set()
            while share.take(1):
                await room.acquire()
                task = asyncio.ensure_future(_publish_one(client, topic, value, share, room))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            await asyncio.gather(*under_way)

    return await _measured("mqtt-publish", load, work)


async def _publish_one(
    client: AsyncMqttClient, topic: str, value: bytes, share: Share, room: asyncio.Semaphore
) -> None:
    begun_s = time.perf_counter()
    try:
        await (await client.begin_publish(topic, value, qos=1))
        share.note(begun_s, 1)
    finally:
        room.release()


async def _measured(kind: str, load: Load, run: Run) -> Result:
    share, begun_s = Share(load.messages), time.perf_counter()
    await asyncio.gather(*(run(share) for _ in range(load.connections)))
    seconds = max(share.last_s - begun_s, 1e-9)
    return Result(
        kind,
        share.done,
        load.size_bytes,
        load.connections,
        load.batch,
        round(seconds, 3),
        round(share.done / seconds, 1),
        percentiles_ms(share.latencies_s),
    )


def percentiles_ms(latencies_s: list[float]) -> dict[str, float]:
    """The smallest that so many are not above."""
    ordered = sorted(latencies_s)
    last = len(ordered) - 1
    places = {name: min(last, max(0, -(-len(ordered) * percent // 100) - 1)) for name, percent in _PERCENTS.items()}
    return {name: round(ordered[int(place)] * 1000, 3) for name, place in places.items()} if ordered else {}
