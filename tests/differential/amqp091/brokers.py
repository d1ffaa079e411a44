"""RabbitMQ as scripts need it: with users, virtual hosts and limits that they run into."""

from __future__ import annotations

from tests.differential.amqp091.mistakes import MAX_MESSAGE_BYTES
from tests.support.rabbitmq import RabbitSettings, permission, user

SETTINGS = RabbitSettings(
    definitions={
        "users": [
            user("limited", "limited"),
            user("topical", "topical"),
            user("stranger", "stranger"),
            user("few", "few"),
            user("once", "once", limits={"max-connections": 1}),
            user("narrow", "narrow", limits={"max-channels": 1}),
        ],
        "vhosts": [{"name": "small"}],
        "permissions": [
            permission("limited", configure="^may", write="^may", read="^may[.]q"),
            permission("topical"),
            permission("few", "small"),
            permission("guest", "small"),
            permission("once"),
            permission("narrow"),
        ],
        "topic_permissions": [
            {"user": "topical", "vhost": "/", "exchange": "amq.topic", "write": "^mine[.]", "read": "^mine[.]"}
        ],
        "parameters": [
            {
                "component": "vhost-limits",
                "vhost": "small",
                "name": "limits",
                "value": {"max-connections": 1, "max-queues": 1},
            }
        ],
    },
    lines=[f"max_message_size = {MAX_MESSAGE_BYTES}"],
    plugins=["rabbitmq_consistent_hash_exchange"],
)
