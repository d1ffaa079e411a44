"""Messages of a group for one who is no member."""

from __future__ import annotations

import asyncio

from penstock.broker.feed.delivery import Delivery, Taking, take_back
from penstock.broker.queues.group import Group
from penstock.core.errors import NoSuchGroup


async def pull(group: Group, number: int, limit: int, wait_s: float, lease_ms: int) -> list[Delivery]:
    """Messages of any partition, each with a lease of its own, for one who is no member. NoSuchGroup if it was
    deleted, meanwhile too."""
    if wait_s <= 0:
        return await _pull_once(group, number, limit, lease_ms)
    event, loop = asyncio.Event(), asyncio.get_running_loop()
    until = loop.time() + wait_s
    group.begin_pull(event)
    try:
        while not (found := await _pull_once(group, number, limit, lease_ms)) and loop.time() < until:
            try:
                async with asyncio.timeout_at(until):
                    await event.wait()
            except TimeoutError:
                break
            event.clear()
    finally:
        group.end_pull(event)
    return found


async def _pull_once(group: Group, number: int, limit: int, lease_ms: int) -> list[Delivery]:
    if group.is_deleted:
        raise NoSuchGroup(group.queue.name, group.name)
    found: list[Delivery] = []
    group.last_used_ms = now = group.now()
    try:
        for unit in group.queue.units_in_turn():
            if limit <= 0 or group.is_paused:
                break
            cursor, before = group.cursor(unit), len(found)
            group.look_at_due(unit, cursor, now)
            await Taking(group, unit, cursor, number, now + lease_ms, lambda: True).take(limit, now, found)
            if len(found) > before:
                group.queue.used_ms = now
                limit -= sum([len(delivery) for delivery in found[before:]])
                group.watch_due(unit, cursor)
    except BaseException:
        take_back(found)
        raise
    return found
