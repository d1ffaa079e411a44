"""Brokers as scripts need them: with users, virtual hosts and limits that they run into."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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


def _allow(action: str, pattern: str, namespace: str = "default") -> dict[str, str]:
    return {"effect": "allow", "action": action, "pattern": pattern, "namespace": namespace}


def _everything(namespace: str = "default") -> list[dict[str, str]]:
    return [_allow("all", pattern, namespace) for pattern in ("#", "$queue/#", "$exchange/#")]


RIGHTS: Mapping[str, Sequence[Mapping[str, str]]] = {
    "limited": [
        *[_allow(action, f"$queue/may.{name}") for action in ("configure", "publish") for name in ("q", "t")],
        *[_allow(action, "$exchange/may.e") for action in ("configure", "publish")],
        _allow("consume", "$queue/may.q"),
    ],
    "topical": [
        _allow("all", "$queue/#"),
        _allow("configure", "$exchange/#"),
        _allow("publish", "$exchange/#"),
        _allow("consume", "$exchange/amq.topic"),
        _allow("consume", "$exchange/amq.topic/mine/#"),
        _allow("publish", "mine/#"),
    ],
    "stranger": [],
    "few": _everything("small"),
    "once": _everything(),
    "narrow": _everything(),
}
"""The same here, by user: what begins with `may` are the names that scripts use."""
HOMES: Mapping[str, str] = {"stranger": "elsewhere", "few": "small"}
"""namespaces that users may enter without a rule"""


def _users() -> list[dict[str, object]]:
    hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    users: list[dict[str, object]] = [
        {"name": name, "password_hash": hasher.hash(name), "acl": acl, "namespace": HOMES.get(name, "default")}
        for name, acl in RIGHTS.items()
    ]
    guest: dict[str, object] = {"name": "guest", "password_hash": hasher.hash("guest"), "roles": ["admin"]}
    return [guest, *users]


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
        f"listeners.{LISTENER}.host={HOST}",
        "storage.disk_reserve=0",
        "log.level=warning",
        f"auth.users={json.dumps(_users())}",
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
