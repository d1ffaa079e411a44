"""Arguments of queue.declare as settings of a queue."""

from __future__ import annotations

from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.declared import Declared

PROFILE: dict[str, object] = {
    "partitions": 1,
    "ordering": "none",
    "dlq_config": {"enabled": False},
    "limits": {"max_queue_depth": "none", "message_ttl": "none", "max_message_size": "15.75MB"},
    "retention": {"time": "none", "settled": "delete"},
    "max_deliveries": "none",
    "group_expiry": "none",
}


def settings_of(
    connection: Connection, channel: Channel, name: str, wanted: Declared, is_server_named: bool
) -> dict[str, object]:
    """AmqpError for arguments that no queue can have."""
    return {**PROFILE, "name": name, "namespace": connection.namespace}
