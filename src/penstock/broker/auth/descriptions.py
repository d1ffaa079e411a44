"""Users and keys as they are shown: without anything that a login could be made from."""

from __future__ import annotations

from penstock.broker.auth.keys import key_user
from penstock.broker.auth.store import ApiKey, User
from penstock.core.descriptions import KeyDescription, UserDescription


def describe_user(user: User) -> UserDescription:
    ways = ("password", user.password_hash), ("scram", user.scram)
    login = tuple(way for way, kept in ways if kept is not None)
    has_password = user.password_hash is not None
    times = user.created_ms, user.changed_ms
    return UserDescription(user.name, user.namespace, user.roles, has_password, login, *times)


def describe_key(key: ApiKey) -> KeyDescription:
    return KeyDescription(
        key.id, key_user(key.id), key.roles, key.namespace, key.description, key.created_ms, key.expires_ms
    )
