"""Queues as AMQP declares them, and what their dead letters say."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from tests.support.broker import Stage

from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import EARLIEST
from penstock.codecs.amqp091.properties import Properties, properties_bytes, read_properties
from penstock.codecs.amqp091.wire import plain, table_of
from penstock.log.columns import Columns
from penstock.log.view import amqp091_of
from penstock.queues.exchange_topics import exchange_topic
from penstock.queues.names import GroupName

DEFAULT = GroupName("default")
PROFILE: Mapping[str, object] = {
    "partitions": 1,
    "ordering": "none",
    "retry_policy": {"max_retries": "none", "total_timeout": "none"},
    "performance": {"delivery_timeout": "none"},
    "max_deliveries": "none",
    "group_expiry": "none",
    "retention": {"time": "none", "settled": "delete"},
}


async def classic(
    s: Stage,
    name: str = "q",
    *,
    exchange: str | None = None,
    key: str | None = None,
    **settings: object,
) -> Queue:
    """As a client of RabbitMQ would declare it, with its group."""
    letters: dict[str, object] = {"enabled": exchange is not None}
    if exchange is not None:
        letters |= {"exchange": exchange, "routing_key": key}
    limits: dict[str, object] = {"max_queue_depth": "none", "message_ttl": "none", "expiry": "at-head"}
    more = dict(settings)
    limits |= dict(more.pop("limits", {}))  # type: ignore[call-overload]
    queue = await s.broker.declare({**PROFILE, "name": name, "dlq_config": letters, "limits": limits, **more})
    await s.broker.declaring.group(queue, DEFAULT, EARLIEST, is_permanent=True)
    return queue


async def send(s: Stage, exchange: str, key: str, *messages: bytes, expiry: int = 0, **fields: object) -> int:
    """As an AMQP door does it; how many queues got it."""
    topics = [exchange_topic(exchange, key.encode())] * len(messages)
    native = [native_of(**fields)] * len(messages)
    times = [expiry] * len(messages) if expiry else None
    columns = Columns.of(messages, topics=topics, native=native, expiry=times)
    return len(await s.broker.publishing.publish(columns, s.publisher))


def native_of(**fields: object) -> bytes:
    headers = fields.pop("headers", None)
    assert headers is None or isinstance(headers, Mapping)
    table = None if headers is None else table_of(headers)
    return b"\x91" + properties_bytes(Properties(headers=table, **fields))  # type: ignore[arg-type]


def group_of(queue: Queue) -> Group:
    return queue.groups[DEFAULT]


async def read_all(s: Stage, queue: Queue) -> list[tuple[bytes, Properties, str]]:
    """Values, properties as AMQP has them, and topics of all that is stored."""
    found = []
    for unit in queue.units.values():
        at = unit.start
        while (stored := await unit.stored(at)) is not None:
            batch, rows = stored.batch, array("i", range(len(stored)))
            data, spans = amqp091_of(batch, rows)
            for row, start, end in zip(rows, spans.starts, spans.ends, strict=True):
                properties = read_properties(bytes(data[start:end]))
                found.append((batch.value(row), properties, (batch.topic(row) or b"").decode()))
            at = stored.end
    return found


def deaths(properties: Properties) -> list[dict[str, object]]:
    found = plain((properties.headers or {})["x-death"])
    assert isinstance(found, list)
    return found
