"""Queues and groups coming, changing and going. Each change is a record in the configuration before it takes effect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakValueDictionary

import msgspec

from penstock.broker.alarms import Alarms
from penstock.broker.catalogue.configuration import Change, Configuration
from penstock.broker.catalogue.exchanges import ExchangeBook
from penstock.broker.catalogue.volatile import Volatile, VolatileOptions
from penstock.broker.feed.stored import StoredCache
from penstock.broker.queues.group import Failures, Group
from penstock.broker.queues.ledger import Ledger
from penstock.broker.queues.partitioned import PartitionedQueue, wanted_logs
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import Start
from penstock.broker.queues.volatile import VolatileQueue, check_volatile
from penstock.broker.webhooks.events import with_secrets
from penstock.core.errors import InvalidArgument, InvalidSetting, NoSuchGroup, NoSuchQueue, QueueExists
from penstock.core.queue_paths import QUEUE_PREFIX, canonical_queue, is_dead_letter_queue
from penstock.core.types import LogName
from penstock.log.journal.late import Part
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.shard import Shard
from penstock.queues.bindings import Bindings
from penstock.queues.declared import (
    NUMBERS_KEY,
    GroupRecord,
    NamespaceRecord,
    NumbersRecord,
    QueueRecord,
    Switch,
    TemplateRecord,
    group_key,
    queue_key,
    template_key,
)
from penstock.queues.names import (
    DEFAULT_NAMESPACE,
    GroupName,
    SubscriptionAddress,
    check_own_queue_name,
    queue_of_publish_topic,
    subscription_address,
    topic_of_address,
)
from penstock.queues.policies import Policy, chosen, effective
from penstock.queues.rabbit_arguments import CLASSIC
from penstock.queues.rabbit_records import declared_of
from penstock.queues.settings import QueueSettings, change, queue_json
from penstock.queues.templates import Template, resolve

logger = logging.getLogger("penstock.broker.declaring")

# Each is passed after switch_timeout at the latest; nobody adds partitions that often.
_SWITCHES_KEPT = 16
# More queues and groups than were ever declared between two records that say how many there were.
_LOST_NUMBERS = 1 << 20

# Of queues of which nothing is stored.
_NO_SETTINGS: dict[str, object] = {}

QueueName = tuple[str, str]
"""namespace, name"""


@dataclass(frozen=True, slots=True)
class Making:
    """Queues that are to be made together."""

    settings: list[QueueSettings]
    records: list[QueueRecord]
    groups: list[list[GroupRecord]]

    def __iter__(self) -> Iterator[tuple[QueueSettings, QueueRecord, list[GroupRecord]]]:
        return iter(zip(self.settings, self.records, self.groups, strict=True))


class Heads(Protocol):
    """What leaves queues without a consumer: see broker/letters/heads."""

    def configured(self, queue: Queue) -> None: ...


class Declaring:
    """All queues, by namespace and name. Used from the loop."""

    def __init__(
        self,
        shard: Shard,
        configuration: Configuration,
        alarms: Alarms,
        ledger: Ledger,
        max_auto_queues: int,
        auto_create: bool,
        volatile: VolatileOptions,
    ) -> None:
        self._shard, self._configuration, self._alarms, self._ledger = shard, configuration, alarms, ledger
        self._timeline, self._max_auto_queues = shard.timeline, max_auto_queues
        self._auto_create = auto_create
        self._now = shard.timeline.now
        self.queues: dict[QueueName, Queue] = {}
        self.by_incarnation: dict[int, Queue] = {}
        self.changed: set[Queue] = set()
        """those in which something has come or gone since somebody emptied it, the deleted left out"""
        self.filled: set[Queue] = set()
        """those that may hold something on the disk that every group has settled"""
        self.bindings: dict[str, Bindings] = {}
        self.exchanges = ExchangeBook(self.bindings_of, self.is_volatile)
        self.volatile = Volatile(volatile, shard.timeline.wall())
        self.templates: dict[str, Template] = {}
        self.policies: dict[tuple[str, str], Policy] = {}
        """by namespace and name; see Policies"""
        self.namespaces: dict[str, NamespaceRecord] = {}
        self.failures: Failures
        self.heads: Heads
        self._next_incarnation = 1
        self._next_group = 1
        self._making = 0
        """queues that make themselves and are not there yet"""
        self._locks: WeakValueDictionary[QueueName, asyncio.Lock] = WeakValueDictionary()
        """as long as somebody has or awaits one: names of queues that are not made are ever new ones"""
        self._cache = StoredCache()

    # Finding

    def queue(self, name: str, namespace: str = "default") -> Queue:
        """NoSuchQueue. By its very name, or in another way to write it."""
        found = self.queues.get((namespace, name)) or self.queues.get((namespace, self.named(name, namespace)))
        if found is None:
            raise NoSuchQueue(name)
        return found

    def called(self, name: str, namespace: str = DEFAULT_NAMESPACE) -> Queue:
        """NoSuchQueue. By its very name only."""
        if (found := self.queues.get((namespace, name))) is None:
            raise NoSuchQueue(name)
        return found

    def named(self, written: str, namespace: str = DEFAULT_NAMESPACE) -> str:
        """The name that is meant: that of a queue which is called so, or which is addressed so; where there is none,
        see canonical_queue(). InvalidArgument where no queue is."""
        if (namespace, written) in self.queues:
            return written
        if not written.startswith(QUEUE_PREFIX):
            return canonical_queue(written)
        return self.bindings_of(namespace).addressed(written.encode()) or canonical_queue(written)

    def has_namespace(self, namespace: str) -> bool:
        """Whether somebody has declared something there. `default` is always there."""
        return (
            namespace == DEFAULT_NAMESPACE
            or namespace in self.namespaces
            or any(space == namespace for space, _ in self.queues)
            or self.exchanges.has_some(namespace)
        )

    def bindings_of(self, namespace: str) -> Bindings:
        found = self.bindings.get(namespace)
        if found is None:
            found = self.bindings[namespace] = Bindings()
        return found

    def is_volatile(self, namespace: str, name: str) -> bool:
        """Whether there is a queue of that name, which is in memory alone."""
        found = self.queues.get((namespace, name))
        return found is not None and found.is_volatile

    # Queues

    def settings_for(
        self, name: str, explicit: Mapping[str, object], *, is_server_named: bool = False
    ) -> QueueSettings:
        """Defaults, then matching templates, then what is said, of a queue with this very name. QueueReserved for one
        that only the broker gives."""
        if not is_server_named:
            check_own_queue_name(name)
        return resolve(name, self.templates.values(), explicit)

    async def declare(
        self,
        settings: QueueSettings,
        groups: Sequence[GroupName] = (),
        *,
        is_auto: bool = False,
        declared: dict[str, object] | None = None,
    ) -> Queue:
        """With groups that stay, and with its partition if it has only one: all in one commit. `declared` is kept for
        the door. QueueExists if there is one of that name."""
        key = settings.namespace, settings.name
        async with self._lock(key):
            if key in self.queues:
                raise QueueExists(settings.name)
            if is_auto:
                self._refuse_too_many()
            record = QueueRecord(
                self._next_incarnation,
                queue_json(settings),
                self._timeline.wall(),
                settings.partitions,
                is_auto,
                declared=declared,
            )
            self._next_incarnation += 1
            queue = await self._make(settings, record, groups)
            self.heads.configured(queue)
            if below := [
                name
                for name in self.bindings_of(settings.namespace).queues_below(settings.name)
                if name != settings.name
            ]:
                logger.info(
                    "queue %s was declared above %s: they keep their own topics", settings.name, ", ".join(below)
                )
            return queue

    # Many at once

    def locked(self, key: QueueName) -> asyncio.Lock:
        """While it is held nobody else makes, changes or deletes a queue of that name."""
        return self._lock(key)

    def making(self, wanted: Sequence[tuple[QueueSettings, Sequence[GroupName], dict[str, object] | None]]) -> Making:
        """Records of queues that are to be made together, each name locked(). QueueExists."""
        found = Making([], [], [])
        for settings, groups, declared in wanted:
            if (settings.namespace, settings.name) in self.queues:
                raise QueueExists(settings.name)
            record = QueueRecord(
                self._next_incarnation,
                queue_json(settings),
                self._timeline.wall(),
                settings.partitions,
                declared=declared,
            )
            self._next_incarnation += 1
            found.settings.append(settings)
            found.records.append(record)
            found.groups.append([self._group_record(record, self._next_number(), name) for name in groups])
        return found

    async def make_all(self, making: Making, beside: Sequence[Change], parts: Callable[[], list[Part]]) -> None:
        """In one commit with changes and parts of others."""
        changes, logs, wanted = list(beside), list[tuple[LogName, LogSettings]](), list[range]()
        for settings, record, groups in making:
            partitions = range(settings.partitions) if settings.partitions == 1 else range(0)
            changes.append((queue_key(record.incarnation), record))
            changes += [(group_key(record.incarnation, group.number), group) for group in groups]
            logs += wanted_logs(self.effective(settings, record), partitions)
            wanted.append(partitions)
        made = await self._configuration.write_creating([*changes, self._numbers()], logs, parts)
        at = 0
        for (settings, record, groups), partitions in zip(making, wanted, strict=True):
            count = 2 * len(partitions)
            self.heads.configured(self._adopt_made(settings, record, groups, partitions, made[at : at + count]))
            at += count

    def _adopt_made(
        self,
        settings: QueueSettings,
        record: QueueRecord,
        groups: Sequence[GroupRecord],
        partitions: Sequence[int],
        logs: Sequence[Log],
    ) -> Queue:
        queue = self.adopt(settings, record)
        queue.adopt_logs(partitions, logs)
        for group in groups:
            self.adopt_group(queue, group)
            queue.used_ms = self._now()
        queue.made_ms = self._now()
        return queue

    async def _make(self, settings: QueueSettings, record: QueueRecord, names: Sequence[GroupName]) -> Queue:
        groups = [self._group_record(record, self._next_number(), name) for name in names]
        partitions = range(settings.partitions) if settings.partitions == 1 else ()
        changes: list[Change] = [(queue_key(record.incarnation), record)]
        changes += [(group_key(record.incarnation, group.number), group) for group in groups]
        self._making += record.is_auto
        try:
            logs = await self._configuration.write_creating(
                [*changes, self._numbers()], wanted_logs(self.effective(settings, record), partitions)
            )
        finally:
            self._making -= record.is_auto
        return self._adopt_made(settings, record, groups, partitions, logs)

    def declare_volatile(
        self,
        settings: QueueSettings,
        groups: Sequence[GroupName] = (),
        *,
        owner: object | None = None,
        declared: dict[str, object] | None = None,
    ) -> Queue:
        """One that is in memory alone, with groups that stay: it is there when this returns. It and its bindings are
        gone with the broker. QueueExists if there is one of that name, or one comes or goes just now; QueueLimit;
        InvalidSetting for what only a stored one can have."""
        check_volatile(settings)
        key = settings.namespace, settings.name
        lock = self._locks.get(key)
        if key in self.queues or (lock is not None and lock.locked()):
            raise QueueExists(settings.name)
        incarnation = self.volatile.next_incarnation()
        record = QueueRecord(incarnation, _NO_SETTINGS, self._timeline.wall(), 1, declared=declared)
        self.bindings_of(settings.namespace).declare(settings.name, settings.topics)
        follows, memory = self.effective(settings, record), self.volatile.memory
        queue = VolatileQueue(self._shard, self._cache, follows, record, self.changed, memory, owner)
        queue.own = settings
        self.queues[key] = self.by_incarnation[incarnation] = queue
        self.volatile.count += 1
        for name in groups:
            self.adopt_group(queue, self._new_group(queue, name))
        self.heads.configured(queue)
        return queue

    def delete_volatile(self, queue: Queue) -> None:
        """With its groups, bindings and messages: it is gone when this returns. NoSuchQueue if it was before."""
        _refuse_deleted(queue)
        assert isinstance(queue, VolatileQueue)
        removal = self.exchanges.of_queue(queue.namespace, queue.name)
        changes = self.exchanges.changes(queue.namespace, removal)
        self._forget(queue)
        self.exchanges.remove(queue.namespace, removal)
        queue.end_it()
        self.volatile.count -= 1
        if changes:
            # Exchanges that go with their last binding: nobody waits until that is stored.
            self.volatile.write(self._configuration, changes)

    async def declared(
        self, settings: QueueSettings, *, is_auto: bool = False, made: list[Queue] | None = None
    ) -> Queue:
        """The queue of that name, made with these settings if there is none, and then added to `made`."""
        found = self.queues.get((settings.namespace, settings.name))
        if found is not None:
            if not is_auto:
                found.declared_ms = self._now()
                await self.keep(found)
            return found
        try:
            queue = await self.declare(settings, is_auto=is_auto)
        except QueueExists:
            return self.queue(settings.name, settings.namespace)
        if is_auto:
            # Not every door can tell whoever named it, and a name with a typo looks like any other.
            logger.info("queue created because it was named namespace=%s queue=%s", queue.namespace, queue.name)
        if made is not None:
            made.append(queue)
        return queue

    def unmade(self, settings: QueueSettings) -> Queue:
        """As it would be made with these settings, to ask what it would take: nobody else knows of it."""
        record = QueueRecord(0, queue_json(settings), self._timeline.wall(), settings.partitions, is_auto=True)
        return Queue(self._shard, self._cache, settings, record)

    async def keep(self, queue: Queue) -> None:
        """Somebody has declared it: it does not go away by itself any more."""
        async with self._lock((queue.namespace, queue.name)):
            if queue.record.is_auto and not queue.is_deleted:  # no volatile one is
                record = msgspec.structs.replace(queue.record, is_auto=False)
                await self._configuration.write((queue_key(queue.incarnation), record))
                queue.record = record

    def wanted(self, name: str, settings: Mapping[str, object]) -> Queue:
        """The queue that named() means in the namespace of the settings; one that is not there as it would be made with
        them, see Routes.made(). NoSuchQueue where none is made by itself."""
        namespace = str(settings.get("namespace", DEFAULT_NAMESPACE))
        name = self.named(name, namespace)
        if (found := self.queues.get((namespace, name))) is not None:
            return found
        if not self._auto_create:
            raise NoSuchQueue(name)
        return self.unmade(self.settings_for(name, settings))

    def queue_of(self, address: SubscriptionAddress, namespace: str = "default") -> str | None:
        """The declared queue that a subscription names, if it is there."""
        return self.bindings_of(namespace).route(topic_of_address(address.path).encode()).prefix_queue

    async def subscribed(
        self,
        topic_filter: str,
        namespace: str = DEFAULT_NAMESPACE,
        made: list[Queue] | None = None,
        *,
        may_make: bool = True,
    ) -> tuple[Queue, str | None]:
        """The queue that `$queue/…` names, and the filter on routing keys that is left. Where no queue is declared,
        `$queue/orders` and `$queue/orders/#` make one and add it to `made`; paths with other wildcards never do, nor
        any where none is to be made."""
        address = subscription_address(topic_filter)
        if address is None:
            raise InvalidArgument(f"{topic_filter!r} names no queue: write $queue/<name>")
        name = self.queue_of(address, namespace)
        if name is None:
            if address.queue_to_create is None or not may_make:
                raise NoSuchQueue(address.path)
            wanted = self.wanted(address.queue_to_create, {"namespace": namespace})
            name = (await self.declared(wanted.settings, is_auto=True, made=made)).name
        return self.queue(name, namespace), address.filter_for(name)

    async def dead_letters_of(self, source: PartitionedQueue, topic: str) -> Queue:
        """The declared queue that the topic is in, or a new one that it names."""
        route = self.bindings_of(source.namespace).route(topic.encode())
        if route.prefix_queue is not None:
            return self.queue(route.prefix_queue, source.namespace)
        name = queue_of_publish_topic(topic) or ""
        partitions = source.settings.partitions if is_dead_letter_queue(name) else None
        explicit = {"namespace": source.namespace} | ({"partitions": partitions} if partitions else {})
        return await self.declared(self.settings_for(name, explicit))

    def effective(self, settings: QueueSettings, record: QueueRecord) -> QueueSettings:
        """What a queue with these settings does, by the policies there are. One that does not go together with them
        is passed over, and said."""
        if not self.policies:
            return settings
        declared = declared_of(record.declared)
        mine = [policy for (namespace, _), policy in self.policies.items() if namespace == settings.namespace]
        counting = chosen(mine, settings.name, CLASSIC if declared is None else declared.type)
        try:
            return effective(settings, declared, counting)
        except InvalidSetting as error:
            logger.warning("policy passed over queue=%s setting=%s reason=%s", settings.name, error.path, error.reason)
            return settings

    async def follow_policies(self, queue: Queue) -> None:
        """What it does follows the policies there are now. NoSuchQueue if it is gone."""
        if self.effective(queue.own, queue.record) == queue.settings:
            return
        async with self.holding(queue):
            settings = self.effective(queue.own, queue.record)
            if logs := queue.changed_logs(settings):
                await self._configuration.write(logs=logs)
            queue.configure(settings, queue.record, queue.own)
            self.heads.configured(queue)

    def adopt(self, settings: QueueSettings, record: QueueRecord) -> Queue:
        queue = Queue(self._shard, self._cache, self.effective(settings, record), record, self.changed)
        queue.own = settings
        queue.filled = self.filled
        self.filled.add(queue)
        self.queues[settings.namespace, settings.name] = queue
        self.by_incarnation[record.incarnation] = queue
        self._next_incarnation = max(self._next_incarnation, record.incarnation + 1)
        self.bindings_of(settings.namespace).declare(settings.name, settings.topics)
        return queue

    def adopt_numbers(self, record: NumbersRecord) -> None:
        self._next_incarnation = max(self._next_incarnation, record.incarnation)
        self._next_group = max(self._next_group, record.group)

    def pass_numbers_over(self) -> None:
        """Records were lost: numbers that nobody knows any more may have been given away, and state logs carry them."""
        self._next_incarnation += _LOST_NUMBERS
        self._next_group += _LOST_NUMBERS

    def _numbers(self) -> tuple[str, NumbersRecord]:
        return NUMBERS_KEY, NumbersRecord(self._next_incarnation, self._next_group)

    async def change(self, queue: Queue, changes: Mapping[str, object]) -> None:
        """InvalidSetting for what cannot change while the queue lives."""
        async with self.holding(queue):
            await self._change(queue, changes)

    async def change_topic(self, queue: Queue, topic_filter: str, *, is_wanted: bool) -> bool:
        """One filter of its topics comes or goes; False if nothing has to be changed."""
        async with self.holding(queue):
            topics = [each for each in queue.settings.topics if each != topic_filter]
            if is_wanted == (len(topics) < len(queue.settings.topics)):
                return False
            await self._change(queue, {"topics": [*topics, topic_filter] if is_wanted else topics})
            return True

    @asynccontextmanager
    async def holding(self, queue: Queue) -> AsyncIterator[None]:
        """While it is held it is not changed or deleted by others. NoSuchQueue if it is gone."""
        async with self._lock((queue.namespace, queue.name)):
            _refuse_deleted(queue)
            yield

    async def _change(self, queue: Queue, changes: Mapping[str, object]) -> None:
        changes = with_secrets(changes, queue.settings.dlq_config.alert_webhook)
        settings = change(queue.own, changes)
        # While no publish is under way: it might make the logs of another partition.
        await queue.gate.close()
        try:
            if settings.partitions > queue.settings.partitions and not queue.is_volatile:
                await self._grow(queue, settings)
            else:
                record = msgspec.structs.replace(queue.record, settings=queue_json(settings))
                follows = await self._write(queue, settings, record)
                queue.configure(follows, record, settings)
        finally:
            queue.gate.open()
        self.bindings_of(queue.namespace).declare(queue.name, settings.topics)
        self.heads.configured(queue)
        for group in queue.groups.values():
            group.look_at_switch(self._now())

    async def _write(self, queue: Queue, settings: QueueSettings, record: QueueRecord) -> QueueSettings:
        """The settings of a queue and of all its logs, in one frame; those that count."""
        follows = self.effective(settings, record)
        if queue.is_volatile:
            check_volatile(follows)
            return follows
        await self._configuration.write((queue_key(queue.incarnation), record), logs=queue.changed_logs(follows))
        return follows

    async def _grow(self, queue: Queue, settings: QueueSettings) -> None:
        """No publish is under way between reading the ends of the old partitions and the commit of the switch."""
        switch = self._switch(queue, settings)
        switches = (*queue.record.switches[-_SWITCHES_KEPT + 1 :], switch)
        record = msgspec.structs.replace(queue.record, settings=queue_json(settings), switches=switches)
        follows = await self._write(queue, settings, record)
        for group in queue.groups.values():
            group.begin_switch(switch)
        queue.configure(follows, record, settings)

    def _switch(self, queue: Queue, settings: QueueSettings) -> Switch:
        ends = {
            partition: (unit.data.end if (unit := queue.units.get(partition)) is not None else 0)
            for partition in range(queue.settings.partitions)
        }
        return Switch(ends, self._now() + self._timeline.shift + settings.switch_timeout_ms)

    async def pause(self, queue: Queue, is_paused: bool) -> None:
        async with self._lock((queue.namespace, queue.name)):
            _refuse_deleted(queue)
            record = msgspec.structs.replace(queue.record, is_paused=is_paused)
            await self._write_of(queue, (queue_key(queue.incarnation), record))
            queue.record, queue.is_paused = record, is_paused
        for partition in queue.units:
            queue.notify(partition)

    async def _write_of(self, queue: PartitionedQueue, *changes: Change) -> None:
        if not queue.is_volatile:
            await self._configuration.write(*changes)

    async def delete(self, queue: Queue) -> None:
        """With its groups, its bindings and all messages."""
        if queue.is_volatile:
            self.delete_volatile(queue)
            return
        async with self._lock((queue.namespace, queue.name)):
            _refuse_deleted(queue)
            async with queue.snapshotting:
                await queue.all_opened()
                await self._delete(queue)

    async def _delete(self, queue: Queue) -> None:
        """In one commit. Nobody is making logs of it."""
        removal = self.exchanges.of_queue(queue.namespace, queue.name)
        numbers = [group.number for group in queue.groups.values()]
        gone: list[Change] = [(group_key(queue.incarnation, number), None) for number in numbers]
        gone += self.exchanges.changes(queue.namespace, removal)
        gone.append((queue_key(queue.incarnation), None))
        logs = queue.logs

        def staged() -> None:
            self._forget(queue)
            self.exchanges.remove(queue.namespace, removal)

        await self._configuration.write_deleting(gone, logs, staged)

    def _forget(self, queue: Queue) -> None:
        queue.is_deleted = True
        del self.queues[queue.namespace, queue.name]
        del self.by_incarnation[queue.incarnation]
        self.changed.discard(queue)
        self.filled.discard(queue)
        self.bindings_of(queue.namespace).drop(queue.name)
        for group in queue.groups.values():
            _dismiss(group)
        queue.groups.clear()
        for unit in queue.units.values():
            unit.data.on_commit = None
            self._shard.floors.pop(unit.data.number, None)
            self._shard.unsettled.pop(unit.data.number, None)
        queue.notify_of_end()
        queue.units.clear()

    async def purge(self, queue: Queue) -> int:
        """All messages are gone, for every group; how many there were."""
        gone = 0
        for unit in list(queue.units.values()):
            gone += unit.data.end - unit.start - unit.missing(unit.start)
            if isinstance(queue, VolatileQueue):
                queue.purge()
            else:
                await self._shard.purge(unit.data)
            unit.forget_batches()
            for group in queue.groups.values():
                group.cursor(unit).settle_below(unit.start)
                self.failures.after_dropping(group, unit)
            await self._ledger.flush([unit])
        queue.note_change()
        return gone

    # Groups

    async def group(
        self, queue: Queue, key: GroupName, start: Start, *, is_derived: bool = False, is_permanent: bool = False
    ) -> Group:
        """The group of that name; begun at `start` if there is none."""
        found = queue.groups.get(key)
        if found is not None:
            return found
        async with self._lock((queue.namespace, queue.name)):
            if (found := queue.groups.get(key)) is not None:
                return found
            _refuse_deleted(queue)
            record = self._new_group(queue, key, await self._starts(queue, start))
            record = msgspec.structs.replace(record, is_derived=is_derived, is_permanent=is_permanent)
            await self._write_of(queue, (group_key(queue.incarnation, record.number), record), self._numbers())
            group = self.adopt_group(queue, record)
            group.look_at_switch(self._now())
            if queue.head is not None:
                queue.head.look_at_all()
            queue.used_ms = self._now()
            return group

    def _next_number(self) -> int:
        self._next_group += 1
        return self._next_group - 1

    def _new_group(
        self, queue: Queue, key: GroupName, starts: Mapping[int, tuple[int, int]] | None = None
    ) -> GroupRecord:
        """One that stays. Numbers of those that nothing is stored of are their queue's."""
        if not isinstance(queue, VolatileQueue):
            return self._group_record(queue.record, self._next_number(), key, starts)
        queue.next_group += 1
        return self._group_record(queue.record, queue.next_group - 1, key, starts)

    def _group_record(
        self, queue: QueueRecord, number: int, key: GroupName, starts: Mapping[int, tuple[int, int]] | None = None
    ) -> GroupRecord:
        created_ms = self._timeline.wall()
        return GroupRecord(
            queue.incarnation, number, key.name, key.filter, created_ms, dict(starts or {}), is_permanent=True
        )

    def adopt_group(self, queue: Queue, record: GroupRecord) -> Group:
        group = Group(queue, record, self._alarms, self.failures, self._timeline)
        queue.groups[group.key] = group
        queue.note_change()
        self._next_group = max(self._next_group, record.number + 1)  # those of volatile queues are small
        for switch in queue.record.switches:
            # One that was over before the group was made is no reason for a log line.
            if switch.deadline_ms > record.created_ms or _is_older(record, switch):
                group.begin_switch(switch)
        return group

    async def delete_group(self, group: Group) -> None:
        queue = group.queue
        queue.groups.pop(group.key, None)
        queue.note_change()
        _dismiss(group)
        for unit in queue.units.values():
            unit.cursors.pop(group.number, None)
        await self._write_of(queue, (group_key(queue.incarnation, group.number), None))

    async def pause_group(self, group: Group, is_paused: bool) -> None:
        _refuse_deleted_group(group)
        record = msgspec.structs.replace(group.record, is_paused=is_paused)
        await self._write_of(group.queue, (group_key(group.queue.incarnation, group.number), record))
        group.record = record
        for partition in group.queue.units:
            group.notify(partition)

    async def seek(self, group: Group, start: Start, partitions: Sequence[int] | None = None) -> None:
        """Begin anew: what it had settled or held counts no more. Offsets are those of Start."""
        _refuse_deleted_group(group)
        starts = await self._starts(group.queue, start)
        wanted = starts.keys() if partitions is None else starts.keys() & set(partitions)
        units = [group.queue.units[partition] for partition in wanted]
        for unit in units:
            group.cursor(unit).place(*starts[unit.partition])
            group.forget_holds(unit.partition)
        group.look_at_switch(self._now())
        await self._ledger.flush(units)
        for unit in units:
            group.notify(unit.partition)

    async def _starts(self, queue: PartitionedQueue, start: Start) -> dict[int, tuple[int, int]]:
        now = self._timeline.wall()
        return {
            unit.partition: (await start.offset(self._shard, unit.data, unit.partition, now), unit.data.end)
            for unit in list(queue.units.values())
        }

    # Templates

    async def put_template(self, match: str, settings: Mapping[str, object]) -> None:
        settings = with_secrets(settings, _address_in(self.templates.get(match)))
        template = Template(match, settings)
        await self._configuration.write((template_key(match), TemplateRecord(match, dict(settings))))
        self.templates[match] = template

    async def drop_template(self, match: str) -> None:
        if match not in self.templates:
            raise InvalidArgument(f"no template for {match!r}; there are {', '.join(self.templates) or 'none'}")
        await self._configuration.write((template_key(match), None))
        self.templates.pop(match, None)

    def _refuse_too_many(self) -> None:
        count = self._making + sum(1 for queue in self.queues.values() if queue.record.is_auto)
        if count >= self._max_auto_queues:
            raise InvalidArgument(
                f"{count} queues were created automatically, and max_auto_queues is {self._max_auto_queues}: "
                f"create this one yourself, or delete some"
            )

    def _lock(self, key: QueueName) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())


def _is_older(group: GroupRecord, switch: Switch) -> bool:
    """Whatever the clock was then."""
    return any(group.starts.get(partition, (0, 0))[1] < end for partition, end in switch.ends.items())


def _address_in(template: Template | None) -> str | None:
    section = None if template is None else template.settings.get("dlq_config")
    address = section.get("alert_webhook") if isinstance(section, Mapping) else None
    return address if isinstance(address, str) else None


def _refuse_deleted(queue: Queue) -> None:
    """Whoever still has it in hand must not bring it back."""
    if queue.is_deleted:
        raise NoSuchQueue(queue.name)


def _refuse_deleted_group(group: Group) -> None:
    if group.is_deleted:
        raise NoSuchGroup(group.queue.name, group.name)


def _dismiss(group: Group) -> None:
    for unit in group.queue.units.values():
        if (cursor := unit.cursors.get(group.number)) is not None:
            group.queue.past.add(cursor.tally)
    for consumer in list(group.consumers.values()):
        group.leave(consumer, counted=False)
    group.wake_pullers()
    group.turns.end()
