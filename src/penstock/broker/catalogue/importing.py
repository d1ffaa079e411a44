"""Everything that another broker had declared, at once: one commit, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import msgspec

from penstock.broker.auth.rules import Rule
from penstock.broker.auth.store import User
from penstock.broker.auth.users import Users
from penstock.broker.catalogue.configuration import Change
from penstock.broker.catalogue.declarations import Declaring, Making
from penstock.broker.catalogue.exchanges import binding_record, record_of
from penstock.broker.catalogue.exchanging import Exchanging, as_filter
from penstock.broker.catalogue.policies import Policies, change_of
from penstock.broker.queues.queue import Queue
from penstock.core.errors import InvalidArgument, NoSuchQueue
from penstock.queues.bindings import Bindings
from penstock.queues.declared import NamespaceRecord, namespace_key, queue_key
from penstock.queues.exchange_headers import Value
from penstock.queues.exchange_records import binding_key, exchange_key
from penstock.queues.exchange_types import Binding, Destination
from penstock.queues.exchanges import Exchange, Exchanges
from penstock.queues.names import GroupName
from penstock.queues.policies import PolicyRecord, policy
from penstock.queues.settings import QueueSettings, change, queue_json


@dataclass(frozen=True, slots=True)
class WantedQueue:
    settings: QueueSettings
    groups: tuple[GroupName, ...]
    declared: dict[str, object]


@dataclass(frozen=True, slots=True)
class WantedBinding:
    namespace: str
    source: str
    destination: Destination
    key: str
    arguments: Mapping[str, Value]


@dataclass(slots=True)
class Wanted:
    """What is to be there. Of queues, only those that are not."""

    namespaces: list[NamespaceRecord] = field(default_factory=list)
    users: list[User] = field(default_factory=list)
    rules: dict[tuple[str, str], list[Rule]] = field(default_factory=dict)
    """by user and namespace: instead of those there are"""
    policies: list[PolicyRecord] = field(default_factory=list)
    exchanges: list[tuple[str, Exchange]] = field(default_factory=list)
    queues: list[WantedQueue] = field(default_factory=list)
    bindings: list[WantedBinding] = field(default_factory=list)

    @property
    def spaces(self) -> list[str]:
        found = {namespace for namespace, _ in self.exchanges} | {each.namespace for each in self.bindings}
        return sorted(found | {queue.settings.namespace for queue in self.queues})


class Importing:
    """Used from the loop."""

    def __init__(self, declaring: Declaring, exchanging: Exchanging, policies: Policies) -> None:
        self._declaring, self._exchanging, self._policies = declaring, exchanging, policies

    async def take(self, wanted: Wanted, users: Users) -> None:
        """All of it in one commit. Raises what the first that cannot be would raise alone, and nothing has changed."""
        for record in wanted.policies:
            policy(record)
        async with AsyncExitStack() as held:
            imported = await held.enter_async_context(users.importing(wanted.users, wanted.rules))
            for space in wanted.spaces:
                await held.enter_async_context(self._exchanging.changing(space))
            topics = _Topics(self._declaring, wanted.queues)
            bindings = [each for each in wanted.bindings if not topics.takes(each)]
            changing = [queue for queue in topics.existing if isinstance(queue, Queue)]
            names = [(queue.settings.namespace, queue.settings.name) for queue in topics.queues]
            for key in sorted({*names, *((queue.namespace, queue.name) for queue in changing)}):
                await held.enter_async_context(self._declaring.locked(key))
            making = self._declaring.making(
                [(each.settings, each.groups, each.declared) for each in topics.queues],
            )
            planned = self._planned(wanted, bindings, making)
            changes = [*self._records(wanted), *topics.changes(), *(change for change, _, _ in planned)]
            await self._declaring.make_all(making, changes, imported.parts)
            self._apply(wanted, planned, topics, imported.apply)
        await self._policies.look_again()

    def _records(self, wanted: Wanted) -> list[Change]:
        found: list[Change] = [(namespace_key(each.name), each) for each in wanted.namespaces]
        found += [change_of(each) for each in wanted.policies]
        for namespace, exchange in wanted.exchanges:
            if exchange.name not in self._exchanging.of(namespace) and exchange.is_durable:
                found.append((exchange_key(namespace, exchange.name), record_of(namespace, exchange)))
        return found

    def _planned(
        self, wanted: Wanted, bindings: Iterable[WantedBinding], making: Making
    ) -> list[tuple[Change, str, Binding]]:
        """Bindings with their numbers, as they would be made one after the other on what will be there."""
        scratch: dict[str, Exchanges] = {}
        for namespace, exchange in wanted.exchanges:
            self._scratch(scratch, namespace).declare(exchange)
        found: list[tuple[Change, str, Binding]] = []
        for each in bindings:
            space, real = self._scratch(scratch, each.namespace), self._exchanging.of(each.namespace)
            identity = (each.source, each.destination, each.key, each.arguments)
            incarnation = None
            if each.destination.kind == "queue":
                incarnation = self._incarnation(each.namespace, each.destination.name, making)
            if real.bound(*identity) is not None or space.bound(*identity) is not None:
                continue
            made = space.new_binding(*identity)
            space.bind(made)
            record = binding_record(each.namespace, made, incarnation)
            found.append(((binding_key(each.namespace, made.number), record), each.namespace, made))
        return found

    def _scratch(self, scratch: dict[str, Exchanges], namespace: str) -> Exchanges:
        """What there is, to be tried on."""
        if (found := scratch.get(namespace)) is None:
            real = self._exchanging.of(namespace)
            found = scratch[namespace] = real.copied(Bindings())
        return found

    def _incarnation(self, namespace: str, name: str, making: Making) -> int:
        for record in making.records:
            if (record.namespace, record.name) == (namespace, name):
                return record.incarnation
        return self._declaring.called(name, namespace).incarnation

    def _apply(
        self, wanted: Wanted, planned: Sequence[tuple[Change, str, Binding]], topics: _Topics, apply_users: object
    ) -> None:
        """In one turn of the loop."""
        for record in wanted.policies:
            self._declaring.policies[record.namespace, record.name] = policy(record)
        for each in wanted.namespaces:
            self._declaring.namespaces[each.name] = each
        for namespace, exchange in wanted.exchanges:
            self._exchanging.of(namespace).declare(exchange)
        for _, namespace, binding in planned:
            self._exchanging.of(namespace).bind(binding)
        topics.apply()
        assert callable(apply_users)
        apply_users()


class _Topics:
    """Bindings to amq.topic that are filters of a queue: of one that is to be made, or that is there."""

    def __init__(self, declaring: Declaring, queues: Iterable[WantedQueue]) -> None:
        self._declaring = declaring
        self._wanted = {(each.settings.namespace, each.settings.name): each for each in queues}
        self._existing: dict[Queue, QueueSettings] = {}

    @property
    def queues(self) -> list[WantedQueue]:
        return list(self._wanted.values())

    @property
    def existing(self) -> list[Queue]:
        return list(self._existing)

    def takes(self, binding: WantedBinding) -> bool:
        topic_filter = as_filter(binding.source, binding.destination, binding.key, binding.arguments)
        if topic_filter is None:
            return False
        key = binding.namespace, binding.destination.name
        if (made := self._wanted.get(key)) is not None:
            settings = _with_topic(made.settings, topic_filter)
            self._wanted[key] = WantedQueue(settings, made.groups, made.declared)
            return True
        queue = self._declaring.queues.get(key)
        if queue is None:
            raise NoSuchQueue(binding.destination.name)
        if queue.is_volatile:
            raise InvalidArgument(f"queue {queue.name!r} is not durable: bind it when it is declared")
        self._existing[queue] = _with_topic(self._existing.get(queue, queue.own), topic_filter)
        return True

    def changes(self) -> list[Change]:
        found: list[Change] = []
        for queue, settings in self._existing.items():
            record = msgspec.structs.replace(queue.record, settings=queue_json(settings))
            found.append((queue_key(queue.incarnation), record))
        return found

    def apply(self) -> None:
        for queue, settings in self._existing.items():
            record = msgspec.structs.replace(queue.record, settings=queue_json(settings))
            queue.configure(self._declaring.effective(settings, record), record, settings)
            self._declaring.heads.configured(queue)
            self._declaring.bindings_of(queue.namespace).declare(queue.name, settings.topics)


def _with_topic(settings: QueueSettings, topic_filter: str) -> QueueSettings:
    if topic_filter in settings.topics:
        return settings
    return change(settings, {"topics": [*settings.topics, topic_filter]})
