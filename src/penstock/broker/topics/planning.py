"""Who gets which rows of a publication, in which way, and in which order."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from penstock.broker.topics.publication import Publication
from penstock.broker.topics.router import Route, receiver_of
from penstock.broker.topics.shares import Share, SharedStrategy
from penstock.broker.topics.storing import Stored, store, store_unassured
from penstock.broker.topics.subscriptions import Manner, Some, Subscriber
from penstock.log.columns import Columns

Sent: TypeAlias = "tuple[Manner, array[int], Sequence[Subscriber]]"


@dataclass(slots=True)
class Plan:
    """`live` at once, `stored` after they are committed for the subscriber."""

    live: list[Sent]
    shared: list[tuple[Share, Manner, array[int], Subscriber]] = field(default_factory=list)
    """one member of each share, who is connected"""
    mixed: dict[Subscriber, list[Some]] = field(default_factory=dict)
    """those who get rows in several manners: in the order of the rows all the same [MQTT-4.6.0-6]"""
    stored: list[Stored] = field(default_factory=list)
    """more than one only where a subscriber gets a message more than once"""
    kept: set[Subscriber] = field(default_factory=set)
    """those for whom all of it is stored, what has no QoS too: else that would go past what is not committed"""

    def deliver(self, publication: Publication) -> None:
        """To all who are connected. Those whom messages are stored for get only what has no QoS from here."""
        for manner, rows, subscribers in self.live:
            if any(each.stored for each in subscribers):
                subscribers = self._deliver_unstored(publication, manner, rows, subscribers)
            if subscribers:
                manner.audience.deliver(publication, manner, rows, subscribers)
        for share, manner, rows, subscriber in self.shared:
            if subscriber in self.kept:
                continue
            mine = publication.unassured(rows) if subscriber.stored and manner.qos else rows
            if mine:
                manner.audience.deliver(publication, manner, mine, [subscriber], share)
        for subscriber, parts in self.mixed.items():
            if subscriber not in self.kept:
                self._deliver_mixed(publication, subscriber, parts)

    def _deliver_unstored(
        self, publication: Publication, manner: Manner, rows: array[int], subscribers: Sequence[Subscriber]
    ) -> list[Subscriber]:
        """Those who get all of it."""
        left = [each for each in subscribers if each not in self.kept]
        if not manner.qos:
            return left
        stored = [each for each in left if each.stored]
        if stored and (unstored := publication.unassured(rows)):
            manner.audience.deliver(publication, manner, unstored, stored)
        return [each for each in left if not each.stored]

    @staticmethod
    def _deliver_mixed(publication: Publication, subscriber: Subscriber, parts: Sequence[Some]) -> None:
        mine = [
            part._replace(rows=publication.unassured(part.rows)) if subscriber.stored and part.manner.qos else part
            for part in parts
        ]
        if mine := [part for part in mine if part.rows]:
            subscriber.audience.deliver_mixed(publication, subscriber, mine)

    def rows(self) -> Iterator[Sequence[int]]:
        """Those that somebody gets."""
        for _, rows, subscribers in self.live:
            if subscribers:
                yield rows
        for _, _, rows, _ in self.shared:
            yield rows
        for parts in self.mixed.values():
            for part in parts:
                yield part.rows
        for layer in self.stored:
            for rows, _ in layer.values():
                yield rows


def plan(publication: Publication, routes: Sequence[Route], strategy: SharedStrategy) -> Plan:
    """`routes` are those of the topics."""
    columns, source = publication.columns, publication.source
    made = Plan(_single(routes[0], columns.count, source)) if len(routes) == 1 else _several(columns, routes, source)
    for number, route in enumerate(routes):
        if route.shares or route.stored:
            rows = columns.rows_of_topics([number])
            for receiver in route.stored:
                if not (receiver.no_local and receiver.subscriber is source):
                    store(publication.flags, receiver, rows, made.stored)
            for share in route.shares:
                plan_share(publication, share, rows, strategy, made)
    if made.shared and columns.count > 1:
        _mix_shared(made)
    _keep_order(publication, made)
    return made


def plan_share(
    publication: Publication, share: Share, rows: Sequence[int], strategy: SharedStrategy, made: Plan
) -> None:
    for member, mine in share.deal(strategy, publication.columns, rows):
        receiver = receiver_of(member.subscriber, [member])
        if member.subscriber.stored is not None:
            store(publication.flags, receiver, mine, made.stored)
        if member.subscriber.is_connected:
            made.shared.append((share, receiver.manner(), mine, member.subscriber))


def _single(route: Route, count: int, source: Subscriber | None) -> list[Sent]:
    if not (route.live or route.not_local):
        return []
    rows = array("i", range(count))
    sent: list[Sent] = [(manner, rows, subscribers) for manner, subscribers in route.live.items()]
    for manner, subscribers in route.not_local.items():
        sent.append((manner, rows, [each for each in subscribers if each is not source]))
    return sent


def _several(columns: Columns, routes: Sequence[Route], source: Subscriber | None) -> Plan:
    """Rows of several topics that go to a subscriber in the same manner stay in their order."""
    topics: dict[Subscriber, dict[Manner, list[int]]] = {}
    for number, route in enumerate(routes):
        for manner, subscribers in route.live.items():
            _note(topics, manner, subscribers, number)
        for manner, subscribers in route.not_local.items():
            _note(topics, manner, [each for each in subscribers if each is not source], number)
    together: dict[tuple[Manner, tuple[int, ...]], list[Subscriber]] = {}
    mixed: dict[Subscriber, list[Some]] = {}
    for subscriber, manners in topics.items():
        if len(manners) == 1:
            [(manner, numbers)] = manners.items()
            together.setdefault((manner, tuple(numbers)), []).append(subscriber)
        else:
            mixed[subscriber] = [
                Some(manner, columns.rows_of_topics(numbers), None) for manner, numbers in manners.items()
            ]
    live: list[Sent] = [
        (manner, columns.rows_of_topics(numbers), subscribers) for (manner, numbers), subscribers in together.items()
    ]
    return Plan(live, mixed=mixed)


def _note(
    topics: dict[Subscriber, dict[Manner, list[int]]], manner: Manner, subscribers: Sequence[Subscriber], number: int
) -> None:
    for subscriber in subscribers:
        manners = topics.get(subscriber)
        if manners is None:
            topics[subscriber] = {manner: [number]}
        else:
            manners.setdefault(manner, []).append(number)


def _mix_shared(made: Plan) -> None:
    """Members of shares that get something else as well: of another share, or of a subscription of their own."""
    times = Counter([subscriber for *_, subscriber in made.shared])
    others = {each for each in times if any(mine.share is None for mine in each.subscriptions.values())}
    twice = {subscriber for subscriber, count in times.items() if count > 1} | others
    if not twice:
        return
    for share, manner, rows, subscriber in made.shared:
        if subscriber in twice:
            made.mixed.setdefault(subscriber, []).append(Some(manner, rows, share))
    made.shared = [each for each in made.shared if each[3] not in twice]
    for place, (manner, rows, subscribers) in enumerate(made.live):
        mine = twice.intersection(subscribers)
        for subscriber in mine:
            made.mixed.setdefault(subscriber, []).append(Some(manner, rows, None))
        if mine:
            made.live[place] = manner, rows, [each for each in subscribers if each not in mine]


def _keep_order(publication: Publication, made: Plan) -> None:
    """What has no QoS takes the way of what has, to a subscriber to whom that is under way."""
    storing = set(chain.from_iterable(made.stored))
    found: list[tuple[Subscriber, Manner, array[int]]] = []
    for manner, rows, subscribers in made.live:
        mine = [each for each in subscribers if each.stored and (each in storing or each.is_storing)]
        found += [(subscriber, manner, rows) for subscriber in mine]
    for _, manner, rows, subscriber in made.shared:
        if subscriber.stored and (subscriber in storing or subscriber.is_storing):
            found.append((subscriber, manner, rows))
    for subscriber, parts in made.mixed.items():
        if subscriber.stored and (subscriber in storing or subscriber.is_storing):
            found += [(subscriber, part.manner, part.rows) for part in parts]
    for subscriber, manner, rows in found:
        made.kept.add(subscriber)
        unstored = publication.unassured(rows) if manner.qos else rows
        if unstored and subscriber.is_connected:
            store_unassured(publication.flags, subscriber, manner.retain_as_published, unstored, made.stored)
