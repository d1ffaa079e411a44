"""`$SYS/broker/…`: what the broker says of itself, and `$admin/queue/<name>/stats`, where somebody listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.topics.publication import Publication
from penstock.log.columns import Columns
from penstock.version import VERSION

if TYPE_CHECKING:
    from penstock.gateways.mqtt.gateway import MqttGateway


class SystemTopics:
    """Published now and then, to those who are connected; a new subscriber gets the next ones."""

    def __init__(self, gateway: MqttGateway) -> None:
        self._gateway = gateway
        self._started_s = gateway.loop.time()

    async def publish(self) -> None:
        self._send("default", [(f"$SYS/broker/{name}".encode(), value.encode()) for name, value in self._said()])
        if any(router.has_filters("$admin/") for router in self._gateway.topics.routers):
            for namespace, topic, payload in await self._gateway.admin.stats():
                self._send(namespace, [(topic, payload)])

    def _said(self) -> list[tuple[str, str]]:
        gateway = self._gateway
        metrics = gateway.broker.shard.metrics
        return [
            ("version", f"penstock {VERSION}"),
            ("uptime", f"{int(gateway.loop.time() - self._started_s)} seconds"),
            ("clients/connected", str(gateway.connection_count)),
            ("clients/total", str(len(gateway.registry))),
            ("connections/accepted", str(gateway.accepted)),
            ("subscriptions/count", str(gateway.subscription_count)),
            ("retained messages/count", str(gateway.retained.count)),
            ("messages/received", str(gateway.topics.received)),
            ("messages/refused", str(gateway.counters.refused_rows.total())),
            ("messages/dropped", str(gateway.dropped)),
            ("messages/stored", str(gateway.sessions.queued_messages)),
            ("store/records", str(metrics.records)),
            ("errors/protocol", str(sum(gateway.failures.values()))),
        ]

    def _send(self, namespace: str, said: list[tuple[bytes, bytes]]) -> None:
        topics = [topic for topic, _ in said]
        columns = Columns.of([value for _, value in said], topics=topics)
        self._gateway.topics.tell(Publication(columns, topics, bytes(len(said)), self._gateway.publisher, namespace))
