"""Numbers of queues under the names that RabbitMQ gives them, for dashboards that know those."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from penstock.broker.descriptions import ready_and_held
from penstock.broker.queues.queue import Queue
from penstock.queues.vhosts import vhost_of_namespace
from penstock.telemetry.breather import Breather
from penstock.telemetry.samples import Family, Kind, Labels, Samples, Series
from penstock.telemetry.sources import MetricSources
from penstock.telemetry.text import write

DETAILED, PER_OBJECT = "rabbitmq_detailed_", "rabbitmq_"
_LABELS = ("vhost", "queue")


class _Number(NamedTuple):
    name: str
    kind: Kind
    help: str
    of: Callable[[Queue], int]


def _consumers(queue: Queue) -> int:
    return sum([len(group.consumers) for group in queue.groups.values()])


_CONSUMERS = _Number("queue_consumers", Kind.GAUGE, "Consumers on a queue", _consumers)
_FAMILIES: dict[str, tuple[_Number, ...]] = {
    "queue_coarse_metrics": (
        _Number(
            "queue_messages_ready",
            Kind.GAUGE,
            "Messages ready to be delivered to consumers",
            lambda queue: ready_and_held(queue)[0],
        ),
        _Number(
            "queue_messages_unacked",
            Kind.GAUGE,
            "Messages delivered to consumers but not yet acknowledged",
            lambda queue: ready_and_held(queue)[1],
        ),
        _Number(
            "queue_messages",
            Kind.GAUGE,
            "Sum of ready and unacknowledged messages - total queue depth",
            lambda queue: sum(ready_and_held(queue)),
        ),
    ),
    "queue_consumer_count": (_CONSUMERS,),
    "queue_metrics": (
        _CONSUMERS,
        _Number(
            "queue_messages_persistent", Kind.GAUGE, "Persistent messages", lambda queue: sum(ready_and_held(queue))
        ),
    ),
    "channel_queue_exchange_metrics": (
        _Number(
            "queue_messages_published_total",
            Kind.COUNTER,
            "Total number of messages published to queues",
            lambda queue: queue.published,
        ),
    ),
}
FAMILIES = tuple(_FAMILIES)


async def rabbit_exposition(
    sources: MetricSources, queues: Iterable[Queue], families: Collection[str], prefix: str
) -> bytes:
    """Of families that there are; others have no numbers here."""
    wanted = {number.name: number for name in families for number in _FAMILIES.get(name, ())}
    out: Samples = {}
    breather = Breather()
    async with sources.memory.collecting:
        made = [(number, Family(prefix + number.name, number.kind, number.help, _LABELS)) for number in wanted.values()]
        out.update((family, Series()) for _, family in made)
        for queue in queues:
            labels = Labels(("vhost", vhost_of_namespace(queue.namespace)), ("queue", queue.name))
            if not queue.is_deleted:
                for number, family in made:
                    out[family].put(labels, number.of(queue))
            await breather.turn()
        return await write(out, breather)
