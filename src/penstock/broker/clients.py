"""Clients of every protocol as operators see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

import msgspec


class ClientDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A client that is connected, or whose session is kept: then the fields of a connection are null."""

    client_id: str
    namespace: str
    user: str
    protocol: str | None
    """`mqtt-5`, `mqtt-3.1.1` or `amqp-0.9.1`"""
    listener: str | None
    peer: str | None
    is_connected: bool
    connected_ms: int | None
    """since when, wall time"""
    keep_alive_s: int | None
    """0 for none"""
    session_expiry_s: int
    """after the connection; 4294967295 for never"""
    subscriptions: int
    queued: int
    """messages that wait for it, those of queues aside"""
    in_flight: int
    """sent to it and not finished"""
    received: int
    """messages that it published through this connection"""
    sent: int
    """messages that it was sent through this connection"""


class ChannelDescription(NamedTuple):
    """Of a protocol that has several in a connection."""

    connection: str
    """the client's id"""
    namespace: str
    user: str
    number: int
    consumers: int
    unacknowledged: int
    unconfirmed: int
    prefetch: int
    is_confirming: bool = False
    is_transactional: bool = False


class SubscriptionDescription(msgspec.Struct, frozen=True, kw_only=True):
    """`share` is the name of a shared subscription; a subscription to a queue has `queue` and `group`."""

    client_id: str
    namespace: str
    filter: str
    qos: int
    share: str | None = None
    queue: str | None = None
    group: str | None = None


class ClientTally(NamedTuple):
    """What of a client is counted."""

    namespace: str
    is_connected: bool
    subscriptions: int


class ClientDirectory(Protocol):
    """Used from the loop; what an iterator gives is as it was when it was asked for."""

    def tallies(self) -> Iterator[ClientTally]: ...

    def clients(self) -> Iterator[ClientDescription]: ...

    def client(self, namespace: str, client_id: str) -> ClientDescription | None: ...

    async def disconnect(self, namespace: str, client_id: str, reason: str) -> bool:
        """Told the reason as far as its protocol can, and cut off; its session stays. False if it is not
        connected."""
        ...

    def subscriptions(self) -> Iterator[SubscriptionDescription]: ...


class Directories:
    """Several as one."""

    def __init__(self, those: Sequence[ClientDirectory]) -> None:
        self._those = those

    def tallies(self) -> Iterator[ClientTally]:
        return chain.from_iterable(each.tallies() for each in self._those)

    def clients(self) -> Iterator[ClientDescription]:
        return chain.from_iterable(each.clients() for each in self._those)

    def client(self, namespace: str, client_id: str) -> ClientDescription | None:
        found = (each.client(namespace, client_id) for each in self._those)
        return next((client for client in found if client is not None), None)

    async def disconnect(self, namespace: str, client_id: str, reason: str) -> bool:
        for each in self._those:
            if await each.disconnect(namespace, client_id, reason):
                return True
        return False

    def subscriptions(self) -> Iterator[SubscriptionDescription]:
        return chain.from_iterable(each.subscriptions() for each in self._those)
