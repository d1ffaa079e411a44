"""Brokers as scripts need them: with users, virtual hosts and limits that they run into."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from argon2 import PasswordHasher
from tests.differential.amqp091.mistakes import MAX_MESSAGE_BYTES
from tests.support.live_server import live_server
from tests.support.rabbitmq import RabbitSettings, permission, rabbitmq, user
from tests.support.servers import HOST

from penstock.server.config_listeners import LISTENER_NAMES

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

LISTENER = "amqp"
_HASHER = PasswordHasher(time_cost=1, memory_cost=64)


def _user(name: str, *rules: tuple[str, str], **facts: object) -> dict[str, object]:
    """Whose password is its name."""
    acl = [{"effect": "allow", "action": action, "pattern": pattern} for action, pattern in rules]
    return {"name": name, "password_hash": _HASHER.hash(name), "acl": acl, **facts}


_USERS = [
    _user("guest", roles=["admin"]),
    _user(
        "limited",
        *(("configure", what) for what in ("$queue/may.q", "$queue/may.t", "$exchange/may.e")),
        *(("publish", what) for what in ("$queue/may.q", "$exchange/may.e/#")),
        ("consume", "may.q"),
    ),
    _user(
        "topical",
        *(("configure", what) for what in ("$queue/#", "$exchange/#")),
        *((action, "mine/#") for action in ("publish", "subscribe")),
        ("publish", "$queue/#"),
        ("consume", "#"),
    ),
    _user("stranger", namespace="elsewhere"),
]


def penstock_has_amqp() -> bool:
    """Whether this version has the listener."""
    return LISTENER in LISTENER_NAMES


@contextmanager
def reference(directory: Path) -> Iterator[tuple[str, int]]:
    """NotInstalled if there is no RabbitMQ."""
    with rabbitmq(directory / "rabbitmq", SETTINGS) as server:
        yield HOST, server.port


@contextmanager
def here(directory: Path) -> Iterator[tuple[str, int]]:
    """Penstock with the same users and rights."""
    settings = [
        f"listeners.{LISTENER}.port=0",
        "storage.disk_reserve=0",
        "log.level=warning",
        f"auth.users={json.dumps(_USERS)}",
        "auth.max_failed_logins_per_ip=1000",
        "rate_limit.max_connections_per_ip=0",
        "rate_limit.max_messages_per_client=0",
    ]
    with live_server(directory / "penstock", settings, is_dev=False) as server:
        yield HOST, server.ports[LISTENER]


@contextmanager
def both(directory: Path) -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """RabbitMQ, and Penstock."""
    with reference(directory) as theirs, here(directory) as ours:
        yield theirs, ours
