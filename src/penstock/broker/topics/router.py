"""Who gets the messages of a topic. Routes are kept until a subscription comes or goes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from penstock.broker.topics.subscriptions import Manner, Share, Subscriber, Subscription
from penstock.kernels.topics import SubscriptionTree

# What is remembered of topics: some 100,000 with a few receivers each. Long topics, and those with thousands of
# receivers, are fewer.
_MAX_ROUTES_BYTES = 64 << 20
_ROUTE_BYTES, _RECEIVER_BYTES = 500, 100


@dataclass(slots=True)
class Receiver:
    """All subscriptions of one subscriber that a topic matches."""

    subscriber: Subscriber
    qos: int
    retain_as_published: bool
    no_local: bool
    identifiers: tuple[int, ...]

    def manner(self) -> Manner:
        """Of one that is connected."""
        return Manner(self.subscriber.audience, self.qos, self.retain_as_published, self.identifiers)


@dataclass(slots=True, eq=False)
class Route:
    live: dict[Manner, list[Subscriber]] = field(default_factory=dict)
    """those that are sent the message at once, by how"""
    not_local: dict[Manner, list[Subscriber]] = field(default_factory=dict)
    """the same, but not those who published it"""
    stored: list[Receiver] = field(default_factory=list)
    """those that outlive their connection: what has QoS is stored for them"""
    shares: list[Share] = field(default_factory=list)


_NOBODY = Route()


class Router:
    """Of one namespace."""

    def __init__(self) -> None:
        self._tree = SubscriptionTree()
        self._subscriptions: dict[int, Subscription] = {}
        self._shares: dict[tuple[str, str], Share] = {}
        self._share_numbers: dict[int, Share] = {}
        self._routes: dict[bytes, Route] = {}
        self._routes_bytes = 0
        """about as much as they take"""
        self._next = 0
        self._found = array("q")

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, subscription: Subscription) -> None:
        self._next += 1
        subscription.number = self._next
        self._subscriptions[self._next] = subscription
        self.changed()
        if subscription.share is None:
            self._tree.add(subscription.topic_filter.encode(), self._next)
            return
        key = subscription.share, subscription.topic_filter
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = Share(*key, self._next)
            self._share_numbers[self._next] = share
            self._tree.add(subscription.topic_filter.encode(), self._next)
        share.members.append(subscription)

    def remove(self, subscription: Subscription) -> None:
        if self._subscriptions.pop(subscription.number, None) is None:
            return
        self.changed()
        if subscription.share is None:
            self._tree.remove(subscription.topic_filter.encode(), subscription.number)
        else:
            self._leave_share(subscription)
        subscription.number = -1

    def _leave_share(self, subscription: Subscription) -> None:
        key = subscription.share or "", subscription.topic_filter
        share = self._shares[key]
        share.members.remove(subscription)
        if not share.members:
            del self._shares[key], self._share_numbers[share.number]
            self._tree.remove(subscription.topic_filter.encode(), share.number)

    def changed(self) -> None:
        """One with subscriptions came, went, or is of another audience now."""
        self._routes.clear()
        self._routes_bytes = 0

    def routes(self, topics: Sequence[bytes]) -> list[Route]:
        """Of each of them; none if nobody gets any of them."""
        known = list(map(self._routes.get, topics))
        if known.count(_NOBODY) == len(known):
            return []
        found = [self.route(topic) for topic in topics] if None in known else cast("list[Route]", known)
        return [] if found.count(_NOBODY) == len(found) else found

    def route(self, topic: bytes) -> Route:
        found = self._routes.get(topic)
        if found is None:
            found = self._find(topic)
            self._remember(topic, found, len(self._found))
        return found

    def _remember(self, topic: bytes, route: Route, receivers: int) -> None:
        size = len(topic) + _ROUTE_BYTES + _RECEIVER_BYTES * receivers
        if self._routes_bytes + size > _MAX_ROUTES_BYTES:
            self.changed()
        self._routes[topic] = route
        self._routes_bytes += size

    def identifiers(self, subscriber: Subscriber, topic: bytes) -> tuple[int, ...]:
        """Those of its subscriptions that match a topic; of shared ones if there are no others."""
        route = self.route(topic)
        for receiver in route.stored:
            if receiver.subscriber is subscriber:
                return receiver.identifiers
        members = [member for share in route.shares for member in share.members if member.subscriber is subscriber]
        return receiver_of(subscriber, members).identifiers if members else ()

    def has_filters(self, prefix: str) -> bool:
        """Whether somebody subscribes to what begins so; looks at all of them."""
        return any(each.topic_filter.startswith(prefix) for each in self._subscriptions.values())

    def _find(self, topic: bytes) -> Route:
        del self._found[:]
        self._tree.match(topic, 0, len(topic), self._found)
        if not self._found:
            return _NOBODY
        route = Route()
        mine: dict[Subscriber, list[Subscription]] = {}
        for number in self._found:
            share = self._share_numbers.get(number)
            if share is not None:
                route.shares.append(share)
            else:
                subscription = self._subscriptions[number]
                mine.setdefault(subscription.subscriber, []).append(subscription)
        for subscriber, subscriptions in mine.items():
            _put(route, receiver_of(subscriber, subscriptions))
        return route


def receiver_of(subscriber: Subscriber, subscriptions: Iterable[Subscription]) -> Receiver:
    """A message that several filters of a subscriber match goes out once, with the highest QoS and all identifiers."""
    found = list(subscriptions)
    return Receiver(
        subscriber,
        max([each.qos for each in found]),
        any(each.retain_as_published for each in found),
        all(each.no_local for each in found),
        tuple(sorted({each.identifier for each in found if each.identifier is not None})),
    )


def _put(route: Route, receiver: Receiver) -> None:
    if receiver.subscriber.stored is not None and receiver.qos:
        route.stored.append(receiver)
    if receiver.subscriber.is_connected:
        groups = route.not_local if receiver.no_local else route.live
        groups.setdefault(receiver.manner(), []).append(receiver.subscriber)
