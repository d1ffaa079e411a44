"""`$SYS/broker/…`: what the broker says of itself, and `$admin/queue/<name>/stats`, where somebody listens."""

from __future__ import annotations

import asyncio

from penstock.broker.broker import Broker
from penstock.broker.topics.publication import Publication
from penstock.broker.topics.topics import Topics
from penstock.gateways.mqtt.admin.admin import Admin
from penstock.gateways.mqtt.admin.counters import MqttCounters
from penstock.gateways.mqtt.sessions.registry import Registry
from penstock.log.columns import Columns
from penstock.version import VERSION


class SystemTopics:
    """Published now and then, to those who are connected; a new subscriber gets the next ones."""

    def __init__(
        self, broker: Broker, topics: Topics, admin: Admin, registry: Registry, counters: MqttCounters
    ) -> None:
        self._broker, self._topics, self._admin = broker, topics, admin
        self._registry, self._counters = registry, counters
        self._publisher = broker.publisher()
        self._time_s = asyncio.get_running_loop().time
        self._started_s = self._time_s()

    async def publish(self) -> None:
        self._send("default", [(f"$SYS/broker/{name}".encode(), value.encode()) for name, value in self._said()])
        if any(router.has_filters("$admin/") for router in self._topics.routers):
            for namespace, topic, payload in await self._admin.stats():
                self._send(namespace, [(topic, payload)])

    def _said(self) -> list[tuple[str, str]]:
        counters, sessions = self._counters, self._topics.sessions
        return [
            ("version", f"penstock {VERSION}"),
            ("uptime", f"{int(self._time_s() - self._started_s)} seconds"),
            ("clients/connected", str(counters.connected)),
            ("clients/total", str(len(self._registry))),
            ("connections/accepted", str(counters.accepted)),
            ("subscriptions/count", str(counters.subscriptions)),
            ("retained messages/count", str(self._topics.retained.count)),
            ("messages/received", str(counters.received)),
            ("messages/refused", str(sum(counters.refused.values()))),
            ("messages/dropped", str(counters.dropped)),
            ("messages/stored", str(sessions.queued_messages)),
            ("store/records", str(self._broker.shard.metrics.records)),
            ("errors/protocol", str(sum(counters.errors.values()))),
        ]

    def _send(self, namespace: str, said: list[tuple[bytes, bytes]]) -> None:
        topics = [topic for topic, _ in said]
        columns = Columns.of([value for _, value in said], topics=topics)
        self._topics.tell(Publication(columns, topics, bytes(len(said)), self._publisher, namespace))
