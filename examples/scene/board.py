"""The scene's board: what the server says of itself below $SYS and $admin, as any client may ask."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from examples.scene.workers import GROUP, LETTERS, QUEUE
from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.message import Message
from penstock.client.mqtt.options import MqttOptions

_RECEIVED = "$SYS/broker/messages/received"
_CLIENTS = "$SYS/broker/clients/connected"
_QUEUE, _LETTERS = f"$admin/queue/{QUEUE}/stats", f"$admin/queue/{LETTERS}/stats"


class GroupStats(msgspec.Struct, frozen=True):
    name: str
    lag: int
    lag_s: float
    in_flight: int
    waiting: int
    members: list[object]
    counts: dict[str, int]


class QueueStats(msgspec.Struct, frozen=True):
    """What is shown of `$admin/queue/<name>/stats`; there is more."""

    messages: int
    depth: int
    published: int
    groups: list[GroupStats]


class Rate:
    """Of a counter that is looked at now and then."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._before: tuple[float, int] | None = None
        self.per_s = 0.0

    def take(self, count: int) -> None:
        now_s, before = self._now_s(), self._before
        self._before = now_s, count
        if before is not None and now_s > before[0]:
            self.per_s = max(count - before[1], 0) / (now_s - before[0])


class Board:
    def __init__(self, options: MqttOptions) -> None:
        self._options = options
        self._received, self._published, self._handled = Rate(), Rate(), Rate()
        self._clients = ""
        self._queue: QueueStats | None = None
        self._letters = 0

    async def run(self) -> None:
        async with AsyncMqttClient(self._options) as client:
            await client.subscribe(_RECEIVED, _CLIENTS, _QUEUE, _LETTERS)
            async for message in client.messages():
                self.take(message)

    def take(self, message: Message) -> None:
        match message.topic:
            case topic if topic == _RECEIVED:
                self._received.take(int(message.payload))
            case topic if topic == _CLIENTS:
                self._clients = message.payload.decode()
            case topic if topic == _LETTERS:
                self._letters = msgspec.json.decode(message.payload, type=QueueStats).messages
            case topic if topic == _QUEUE:
                self._take_queue(msgspec.json.decode(message.payload, type=QueueStats))

    def _take_queue(self, queue: QueueStats) -> None:
        self._queue = queue
        self._published.take(queue.published)
        self._handled.take(sum(group.counts.get("acked", 0) for group in queue.groups if group.name == GROUP))

    def row(self) -> dict[str, str]:
        """As of the last second."""
        queue = self._queue
        group = next((each for each in queue.groups if each.name == GROUP), None) if queue else None
        return {
            "clients": self._clients,
            "published/s": f"{self._received.per_s:,.0f}",
            "queued/s": f"{self._published.per_s:,.0f}",
            "handled/s": f"{self._handled.per_s:,.0f}",
            "depth": f"{queue.depth:,}" if queue else "",
            "lag": f"{group.lag:,}" if group else "",
            "lag s": f"{group.lag_s:.1f}" if group else "",
            "in flight": f"{group.in_flight:,}" if group else "",
            "in retry": f"{group.waiting:,}" if group else "",
            "workers": str(len(group.members)) if group else "",
            "dead letters": f"{self._letters:,}",
        }
