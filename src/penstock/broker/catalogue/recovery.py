"""Bringing queues, groups and exchanges back from what was declared and what their state logs say."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Sequence

from penstock.broker.catalogue.configuration import Configuration
from penstock.broker.catalogue.declarations import Declaring
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues import snapshots
from penstock.broker.queues.group import Group
from penstock.broker.queues.partitioned import state_settings
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.core.errors import InvalidArgument, LogDamaged, LogPoisoned
from penstock.core.types import LogName
from penstock.kernels.window import Window
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.shard import Shard
from penstock.queues.declared import GroupRecord, NamespaceRecord, NumbersRecord, QueueRecord, TemplateRecord, queue_key
from penstock.queues.exchange_records import BindingRecord, ExchangeRecord
from penstock.queues.names import data_log, snapshots_log, state_log
from penstock.queues.policies import PolicyRecord, policy
from penstock.queues.settings import Ordering, log_settings, parse_stored
from penstock.queues.templates import Template

logger = logging.getLogger("penstock.broker.opening")


async def restore(shard: Shard, configuration: Configuration, declaring: Declaring, now: int) -> None:
    logs = {log.name: log for log in shard.logs}
    groups: list[GroupRecord] = []
    bindings: list[BindingRecord] = []
    records = configuration.read().values()
    for record in records:  # queues follow them from the beginning
        if isinstance(record, PolicyRecord):
            _restore_policy(declaring, record)
    for record in records:
        if isinstance(record, PolicyRecord):
            continue
        if isinstance(record, NamespaceRecord):
            declaring.namespaces[record.name] = record
        elif isinstance(record, TemplateRecord):
            declaring.templates[record.match] = Template(record.match, record.settings)
        elif isinstance(record, NumbersRecord):
            declaring.adopt_numbers(record)
        elif isinstance(record, QueueRecord) and record.is_deleted:
            await _finish_deletion(shard, configuration, record, logs)
        elif isinstance(record, QueueRecord):
            queue = declaring.adopt(parse_stored(record.settings), record)
            await _find_units(shard, queue, logs)
        elif isinstance(record, ExchangeRecord):
            declaring.exchanges.adopt(record)
        elif isinstance(record, BindingRecord):
            bindings.append(record)
        else:
            groups.append(record)
    _restore_bindings(declaring, bindings)
    await _mend_settings(shard, list(declaring.queues.values()))
    if configuration.has_lost:
        declaring.pass_numbers_over()
    # Compaction leaves the newest record of a key: that of a queue that was changed lies behind those of its groups.
    for group in groups:
        if (owner := declaring.by_incarnation.get(group.incarnation)) is not None:
            declaring.adopt_group(owner, group)
    await shard.learn_holes([unit.data for queue in declaring.queues.values() for unit in queue.units.values()])
    for queue in declaring.queues.values():
        for unit in queue.units.values():
            await _restore_unit(shard, queue, unit, now)
        for restored in queue.groups.values():
            restored.look_at_switch(now)


def _restore_policy(declaring: Declaring, record: PolicyRecord) -> None:
    try:
        declaring.policies[record.namespace, record.name] = policy(record)
    except InvalidArgument as error:
        # Of a version that took what this one does not.
        logger.error("a policy has no effect namespace=%s policy=%s reason=%s", record.namespace, record.name, error)


def _restore_bindings(declaring: Declaring, records: Sequence[BindingRecord]) -> None:
    for record in records:
        queue = None if record.queue is None else declaring.by_incarnation.get(record.queue)
        space = declaring.exchanges.of(record.namespace)
        if record.source not in space or (queue is None and (record.exchange is None or record.exchange not in space)):
            # Only where records were lost to damage: what goes takes its bindings along.
            logger.error("a binding has lost what it binds exchange=%s key=%s", record.source, record.key)
            continue
        declaring.exchanges.adopt_binding(record, None if queue is None else queue.name)


async def _finish_deletion(
    shard: Shard, configuration: Configuration, record: QueueRecord, logs: dict[LogName, Log]
) -> None:
    settings = parse_stored(record.settings)
    for partition in range(settings.partitions):
        for name in (data_log, state_log, snapshots_log):
            log = logs.get(name(settings.namespace, settings.name, partition))
            if log is not None:
                await shard.delete(log)
    try:
        await configuration.write((queue_key(record.incarnation), None))
    except (LogDamaged, LogPoisoned) as error:
        logger.error("a deleted queue is still on the books queue=%s error=%s", settings.name, error)


async def _find_units(shard: Shard, queue: Queue, logs: dict[LogName, Log]) -> None:
    space, name = queue.namespace, queue.name
    for partition in range(queue.settings.partitions):
        data = logs.get(data_log(space, name, partition))
        if data is None:
            continue
        state = logs.get(state_log(space, name, partition))
        if state is None:
            state = await shard.create(state_log(space, name, partition), state_settings(log_settings(queue.settings)))
        unit = Unit(shard, queue.cache, name, partition, data, state)
        unit.snapshots = logs.get(snapshots_log(space, name, partition))
        queue.adopt(unit)


async def _mend_settings(shard: Shard, queues: Sequence[Queue]) -> None:
    """Settings of logs follow those of their queue; a change that an older version was in the midst of is finished."""
    changes: list[tuple[Log, LogSettings]] = []
    for queue in queues:
        found = queue.changed_logs(queue.settings)
        if found:
            logger.warning(
                "settings of logs differed from their queue's and were mended queue=%s logs=%d", queue.name, len(found)
            )
        changes += found
    if changes:
        await shard.change_many(changes)


async def _restore_unit(shard: Shard, queue: Queue, unit: Unit, now: int) -> None:
    if unit.state is None or (unit.state.start == unit.state.end and unit.snapshots is None):
        return
    groups = {group.number: group for group in queue.groups.values()}
    for group in groups.values():
        group.cursor(unit)
    snapshots.restore(shard, unit, now)
    # All before anything is awaited: a commit for one group drains the others too.
    spent = {
        number: cursor.restored(unit.start, groups[number].limits.max_returns)
        for number, cursor in unit.cursors.items()
    }
    for number, cursor in list(unit.cursors.items()):
        group = groups[number]
        await _restore_keys(shard, queue, unit, group)
        group.look_at_due(unit, cursor, now)
        group.watch_due(unit, cursor)
        if spent[number]:
            group.give_up(unit, spent[number])


async def _restore_keys(shard: Shard, queue: Queue, unit: Unit, group: Group) -> None:
    """Keys are not in the state log: messages that wait are looked at again, for the order of what comes after them.
    Those that cannot be read have none, and whoever asks for them is told."""
    window = unit.cursors[group.number].window
    if not window.pending or queue.settings.ordering is Ordering.NONE:
        return
    offsets = window.offsets()
    at = 0
    try:
        while at < len(offsets) and (stored := await unit.stored(offsets[at])) is not None:
            at = max(_set_keys(group, window, stored, offsets, at), at + 1)
    except (LogDamaged, LogPoisoned):
        for data in shard.readable(unit.data, offsets[at]):
            if at == len(offsets):
                break
            at = _set_keys(group, window, StoredBatch.of(data), offsets, at)
    window.rebuild()


def _set_keys(group: Group, window: Window, stored: StoredBatch, offsets: array[int], at: int) -> int:
    """Of the offsets from the place `at` on that lie in the batch; the place of the first behind it."""
    stop = at
    keys = group.keys(stored)
    mine, hashes = array("q"), array("Q")
    while stop < len(offsets) and offsets[stop] < stored.end:
        row = stored.row_from(offsets[stop])
        if keys is not None and row < len(stored) and stored.offsets[row] == offsets[stop]:
            mine.append(offsets[stop])
            hashes.append(keys[row])
        stop += 1
    if mine:
        window.set_keys(mine, hashes)
    return stop
