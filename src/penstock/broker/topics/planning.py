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
from penstock.broker.topics.shares import SharedStrategy, deal
from penstock.broker.topics.stores import Stored, store, store_unassured
from penstock.broker.topics.subscriptions import Manner, Share, Some, Subscriber

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
            if subscribers and rows:
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
    made = Plan(_single(publication, routes[0])) if len(routes) == 1 else _several(publication, routes)
    for number, route in enumerate(routes):
        if route.shares or route.stored:
            rows = publication.rows_of(number)
            for receiver in route.stored:
                mine = _not_own(publication, receiver.subscriber, rows) if receiver.no_local else rows
                store(publication.flags, receiver, mine, made.stored)
            for share in route.shares:
                plan_share(publication, share, rows, strategy, made)
    if made.shared and publication.columns.count > 1:
        _mix_shared(made)
    if made.live or made.shared or made.mixed:
        _keep_order(publication, made)
    return made


def plan_share(
    publication: Publication, share: Share, rows: Sequence[int], strategy: SharedStrategy, made: Plan
) -> None:
    for member, mine in deal(share, strategy, publication.columns, rows):
        receiver = receiver_of(member.subscriber, [member])
        if member.subscriber.stored is not None:
            store(publication.flags, receiver, mine, made.stored)
        if member.subscriber.is_connected:
            made.shared.append((share, receiver.manner(), mine, member.subscriber))


def _not_own(publication: Publication, subscriber: Subscriber, rows: array[int]) -> array[int]:
    """Without those that the subscriber published itself [MQTT-3.8.3-3]."""
    own = publication.rows_by(subscriber)
    return array("i", [row for row in rows if row not in own]) if own else rows


def _single(publication: Publication, route: Route) -> list[Sent]:
    if not (route.live or route.not_local):
        return []
    rows = array("i", range(publication.columns.count))
    sent: list[Sent] = [(manner, rows, subscribers) for manner, subscribers in route.live.items()]
    for manner, subscribers in route.not_local.items():
        publishers = [each for each in subscribers if publication.rows_by(each)]
        sent.append((manner, rows, [each for each in subscribers if each not in publishers]))
        sent += [(manner, _not_own(publication, each, rows), [each]) for each in publishers]
    return sent


def _several(publication: Publication, routes: Sequence[Route]) -> Plan:
    """Rows of several topics that go to a subscriber in the same manner stay in their order."""
    columns, topics = publication.columns, _Topics()
    own: dict[Subscriber, dict[Manner, list[int]]] = {}
    for number, route in enumerate(routes):
        for manner, subscribers in route.live.items():
            topics.note(manner, subscribers, number)
        for manner, subscribers in route.not_local.items():
            topics.note(manner, [each for each in subscribers if not publication.rows_by(each)], number)
            for each in subscribers:
                if publication.rows_by(each):
                    own.setdefault(each, {}).setdefault(manner, []).append(number)
    together: dict[tuple[Manner, tuple[int, ...]], list[Subscriber]] = {}
    mixed: dict[Subscriber, list[Some]] = {}
    for subscriber, manners in topics.items():
        if len(manners) == 1 and subscriber not in own:
            [(manner, numbers)] = manners.items()
            together.setdefault((manner, tuple(numbers)), []).append(subscriber)
        else:
            mixed[subscriber] = [
                Some(manner, columns.rows_of_topics(numbers), None) for manner, numbers in manners.items()
            ]
    for subscriber, manners in own.items():
        for manner, numbers in manners.items():
            if mine := _not_own(publication, subscriber, columns.rows_of_topics(numbers)):
                mixed.setdefault(subscriber, []).append(Some(manner, mine, None))
    live: list[Sent] = [
        (manner, _rows_of(publication, numbers), subscribers) for (manner, numbers), subscribers in together.items()
    ]
    return Plan(live, mixed=mixed)


def _rows_of(publication: Publication, topics: tuple[int, ...]) -> array[int]:
    return publication.rows_of(topics[0]) if len(topics) == 1 else publication.columns.rows_of_topics(topics)


class _Topics(dict[Subscriber, dict[Manner, list[int]]]):
    """The numbers of topics that each subscriber gets, by manner."""

    def note(self, manner: Manner, subscribers: Sequence[Subscriber], number: int) -> None:
        for subscriber in subscribers:
            manners = self.get(subscriber)
            if manners is None:
                self[subscriber] = {manner: [number]}
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
