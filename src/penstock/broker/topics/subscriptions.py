"""Those who want what is published to topics, as the broker looks at them. A door implements `Subscriber` and
`Audience`."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from penstock.broker.sessions.session import Session as StoredSession
    from penstock.broker.topics.publication import Publication


class Subscriber(Hashable, Protocol):
    """Its identity is the object."""

    @property
    def stored(self) -> StoredSession | None:
        """Where messages with QoS are kept for it, if it outlives its connection."""

    @property
    def subscriptions(self) -> Mapping[str, Subscription]: ...

    @property
    def is_connected(self) -> bool: ...

    @property
    def is_behind(self) -> bool:
        """Whether it has not taken what it was sent."""

    @property
    def is_storing(self) -> bool:
        """Whether something is stored for it now, or is about to be sent from there."""

    @property
    def audience(self) -> Audience:
        """Of one that is connected."""

    def overflown(self) -> None:
        """There was no room for what had to be stored for it."""


class Audience(Protocol):
    """Subscribers of a door that can be sent the same bytes."""

    def deliver(
        self,
        publication: Publication,
        manner: Manner,
        rows: array[int],
        subscribers: Sequence[Subscriber],
        share: Share | None = None,
    ) -> None:
        """To each of them these rows, as a member of the share if there is one. Never raises, never waits."""

    def deliver_mixed(self, publication: Publication, subscriber: Subscriber, parts: Sequence[Some]) -> None:
        """To one of them rows in several manners, in the order of the rows."""


class Manner(NamedTuple):
    """How a message goes out: the same for all subscribers with the same one."""

    audience: Audience
    qos: int
    """at most"""
    retain_as_published: bool
    identifiers: tuple[int, ...]
    """of the subscriptions that it is for"""


class Some(NamedTuple):
    """Rows that a subscriber gets in one manner, beside others that it gets in another."""

    manner: Manner
    rows: array[int]
    share: Share | None


@dataclass(slots=True, eq=False)
class Subscription:
    subscriber: Subscriber
    filter: str
    """as it was asked for, `$share/…` included"""
    topic_filter: str
    """without `$share/<name>/`"""
    share: str | None
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int | None = None
    number: int = -1
    """in the router; -1: not there"""


@dataclass(slots=True, eq=False)
class Share:
    """A shared subscription. Members are subscriptions of one name and filter."""

    name: str
    filter: str
    number: int
    """in the router"""
    members: list[Subscription] = field(default_factory=list)
    dealt: int = 0
    """rows so far, where they go round"""
