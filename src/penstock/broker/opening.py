"""Bringing queues and groups back from what was declared and what their state logs say."""

from __future__ import annotations

from array import array

from penstock.broker import snapshots
from penstock.broker.configuration import Configuration, GroupRecord, QueueRecord, TemplateRecord
from penstock.broker.declaring import Declaring
from penstock.broker.group import Group
from penstock.broker.queue import Queue, state_settings
from penstock.broker.unit import Unit
from penstock.core.types import LogName
from penstock.log.partition import Log
from penstock.log.shard import Shard
from penstock.queues.names import data_log, snapshots_log, state_log
from penstock.queues.settings import Ordering, log_settings, parse_queue
from penstock.queues.templates import Template


async def restore(shard: Shard, configuration: Configuration, declaring: Declaring, now: int) -> None:
    logs = {log.name: log for log in shard.logs}
    for record in configuration.read().values():
        if isinstance(record, TemplateRecord):
            declaring.templates[record.match] = Template(record.match, record.settings)
        elif isinstance(record, QueueRecord):
            queue = declaring.adopt(parse_queue(record.settings), record)
            await _find_units(shard, queue, logs)
        elif isinstance(record, GroupRecord) and (queue := declaring.by_incarnation[record.incarnation]):
            declaring.adopt_group(queue, record)
    for queue in declaring.queues.values():
        for unit in queue.units.values():
            await _restore_unit(shard, queue, unit, now)


async def _find_units(shard: Shard, queue: Queue, logs: dict[LogName, Log]) -> None:
    space, name = queue.namespace, queue.name
    for partition in range(queue.settings.partitions):
        data = logs.get(data_log(space, name, partition))
        if data is None:
            continue
        state = logs.get(state_log(space, name, partition))
        if state is None:
            state = await shard.create(state_log(space, name, partition), state_settings(log_settings(queue.settings)))
        unit = Unit(shard, name, partition, data, state)
        unit.snapshots = logs.get(snapshots_log(space, name, partition))
        queue.adopt(unit)


async def _restore_unit(shard: Shard, queue: Queue, unit: Unit, now: int) -> None:
    if unit.state.start == unit.state.end and unit.snapshots is None:
        return
    groups = {group.number: group for group in queue.groups.values()}
    for group in groups.values():
        group.cursor(unit)
    snapshots.restore(shard, unit, now)
    for number, cursor in list(unit.cursors.items()):
        group = groups[number]
        spent = cursor.restored(unit.start, group.limits.max_returns)
        await _restore_keys(queue, unit, group)
        group.look_at_due(unit, cursor, now)
        if spent:
            group.give_up(unit, spent)


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
