"""Bringing queues and groups back from what was declared and what their state logs say."""

from __future__ import annotations

from array import array

from penstock.broker import snapshots
from penstock.broker.configuration import Configuration
from penstock.broker.declaring import Declaring
from penstock.broker.group import Group
from penstock.broker.queue import Queue, state_settings
from penstock.broker.unit import Unit
from penstock.core.types import LogName
from penstock.log.partition import Log
from penstock.log.shard import Shard
from penstock.queues.declared import GroupRecord, NumbersRecord, QueueRecord, TemplateRecord, queue_key
from penstock.queues.names import data_log, snapshots_log, state_log
from penstock.queues.settings import Ordering, log_settings, parse_queue
from penstock.queues.templates import Template


async def restore(shard: Shard, configuration: Configuration, declaring: Declaring, now: int) -> None:
    logs = {log.name: log for log in shard.logs}
    groups: list[GroupRecord] = []
    for record in configuration.read().values():
        if isinstance(record, TemplateRecord):
            declaring.templates[record.match] = Template(record.match, record.settings)
        elif isinstance(record, NumbersRecord):
            declaring.adopt_numbers(record)
        elif isinstance(record, QueueRecord) and record.is_deleted:
            await _finish_deletion(shard, configuration, record, logs)
        elif isinstance(record, QueueRecord):
            queue = declaring.adopt(parse_queue(record.settings), record)
            await _find_units(shard, queue, logs)
        else:
            groups.append(record)
    # Compaction leaves the newest record of a key: that of a queue that was changed lies behind those of its groups.
    for group in groups:
        if (owner := declaring.by_incarnation.get(group.incarnation)) is not None:
            declaring.adopt_group(owner, group)
    for queue in declaring.queues.values():
        for unit in queue.units.values():
            await _restore_unit(shard, queue, unit, now)
        for restored in queue.groups.values():
            restored.look_at_switch(now)


async def _finish_deletion(
    shard: Shard, configuration: Configuration, record: QueueRecord, logs: dict[LogName, Log]
) -> None:
    settings = parse_queue(record.settings)
    for partition in range(settings.partitions):
        for name in (data_log, state_log, snapshots_log):
            log = logs.get(name(settings.namespace, settings.name, partition))
            if log is not None:
                await shard.delete(log)
    await configuration.write((queue_key(record.incarnation), None))


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


async def _restore_unit(shard: Shard, queue: Queue, unit: Unit, now: int) -> None:
    if unit.state.start == unit.state.end and unit.snapshots is None:
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
        await _restore_keys(queue, unit, group)
        group.look_at_due(unit, cursor, now)
        group.watch_due(unit, cursor)
        if spent[number]:
            group.give_up(unit, spent[number])


async def _restore_keys(queue: Queue, unit: Unit, group: Group) -> None:
    """Keys are not in the state log: messages that wait are looked at again, for the order of what comes after them."""
    window = unit.cursors[group.number].window
    if not window.pending or queue.settings.ordering is Ordering.NONE:
        return
    offsets = window.offsets()
    at = 0
    while at < len(offsets):
        stored = await unit.stored(offsets[at])
        if stored is None:
            break
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
        at = max(stop, at + 1)
    window.rebuild()
