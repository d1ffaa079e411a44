"""Consumer groups: described, made, moved, stopped, deleted."""

from __future__ import annotations

import msgspec

from penstock.broker.descriptions import describe_group
from penstock.broker.queues.group import Group
from penstock.broker.queues.start import Start
from penstock.codecs.http.administration import Commit, Committed, Moved, NewGroup, Reset, ResetReport
from penstock.core.descriptions import GroupDescription
from penstock.core.errors import GroupExists, InvalidArgument
from penstock.gateways.http.admin.queues import DryRunQuery, require_look
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.pages import PageQuery, page
from penstock.gateways.http.server.reply import NO_CONTENT, Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.queues.names import parse_group_name

_TAG = "Groups"
_GROUPS = f"{API}/queues/{{queue}}/groups"
_PATH = f"{_GROUPS}/{{group}}"
_PLACES = "earliest, latest, an offset, a time (ISO 8601), or a duration back from now (1h)"


class Groups(msgspec.Struct, frozen=True):
    items: list[GroupDescription]
    next: str | None


async def list_groups(exchange: Exchange) -> Reply:
    require_look(exchange, exchange.queue_name)
    return await _listed(exchange, list(exchange.queue().groups.values()))


async def all_groups(exchange: Exchange) -> Reply:
    queues = [queue for queue in exchange.ports.broker.queues if queue.namespace == exchange.namespace]
    return await _listed(exchange, [group for queue in queues for group in queue.groups.values()])


async def _listed(exchange: Exchange, groups: list[Group]) -> Reply:
    groups.sort(key=_name)
    part, following = page(groups, _name, exchange.query(PageQuery))
    now = exchange.ports.broker.wall()
    return json_reply(Groups([await describe_group(group, now) for group in part], following))


async def create_group(exchange: Exchange) -> Reply:
    exchange.require_consume(exchange.queue_name)
    body = await exchange.read(NewGroup)
    queue, key = exchange.queue(), parse_group_name(body.name)
    if key in queue.groups:
        raise GroupExists(queue.name, body.name)
    group = await exchange.ports.broker.group(queue, key, Start.parse(body.start))
    return json_reply(await describe_group(group, exchange.ports.broker.wall()), 201)


async def describe(exchange: Exchange) -> Reply:
    require_look(exchange, exchange.queue_name)
    return json_reply(await describe_group(_group(exchange), exchange.ports.broker.wall()))


async def delete_group(exchange: Exchange) -> Reply:
    group, is_dry = _group(exchange), exchange.query(DryRunQuery).dry_run
    if not is_dry:
        await exchange.ports.broker.declaring.delete_group(group)
    return NO_CONTENT


async def reset(exchange: Exchange) -> Reply:
    body = await exchange.read(Reset)
    group, broker = _group(exchange), exchange.ports.broker
    count = group.queue.settings.partitions
    if body.partitions is not None and any(not 0 <= number < count for number in body.partitions):
        raise InvalidArgument(f"queue {group.queue.name!r} has partitions 0 to {count - 1}")
    start, moved = Start.parse(body.to), []
    for number, unit in sorted(group.queue.units.items()):
        if body.partitions is None or number in body.partitions:
            after = await start.offset(broker.shard, unit.data, number, broker.wall())
            moved.append(Moved(number, group.cursor(unit).window.floor, after))
    if not body.dry_run:
        await broker.declaring.seek(group, start, body.partitions)
    return json_reply(ResetReport(body.dry_run, moved))


async def commit(exchange: Exchange) -> Reply:
    exchange.require_consume(exchange.queue_name)
    body = await exchange.read(Commit)
    group, settled = _group(exchange), 0
    units = group.queue.units
    for text in body.offsets:
        if int(text) >= group.queue.settings.partitions:
            raise InvalidArgument(f"queue {group.queue.name!r} has no partition {text}")
    for text, offset in body.offsets.items():
        if (unit := units.get(int(text))) is not None:
            settled += await exchange.ports.broker.settling.commit(group, unit, offset)
    return json_reply(Committed(settled))


async def pause(exchange: Exchange) -> Reply:
    await exchange.ports.broker.declaring.pause_group(_group(exchange), True)
    return NO_CONTENT


async def resume(exchange: Exchange) -> Reply:
    await exchange.ports.broker.declaring.pause_group(_group(exchange), False)
    return NO_CONTENT


def _group(exchange: Exchange) -> Group:
    return exchange.queue().group(parse_group_name(exchange.parameters["group"]))


def _name(group: Group) -> str:
    return f"{group.queue.name}\0{group.name}"


ROUTES = (
    Route(
        "GET",
        f"{API}/groups",
        all_groups,
        Right.READ,
        _TAG,
        "List groups of all queues",
        query=PageQuery,
        answers={200: Groups},
    ),
    Route(
        "GET", _GROUPS, list_groups, Right.LOGIN, _TAG, "List groups of a queue", query=PageQuery, answers={200: Groups}
    ),
    Route(
        "POST",
        _GROUPS,
        create_group,
        Right.LOGIN,
        _TAG,
        "Create a group",
        body=NewGroup,
        answers={201: GroupDescription},
    ),
    Route("GET", _PATH, describe, Right.LOGIN, _TAG, "Describe a group", answers={200: GroupDescription}),
    Route("DELETE", _PATH, delete_group, Right.ADMIN, _TAG, "Delete a group", query=DryRunQuery, answers={204: None}),
    Route(
        "POST",
        f"{_PATH}/reset",
        reset,
        Right.ADMIN,
        _TAG,
        "Reset a group to a position",
        f"Acknowledgements, deliveries in flight and retries of the group are discarded. Positions: {_PLACES}.",
        body=Reset,
        answers={200: ResetReport},
    ),
    Route(
        "POST",
        f"{_PATH}/commit",
        commit,
        Right.LOGIN,
        _TAG,
        "Acknowledge everything below an offset",
        body=Commit,
        answers={200: Committed},
    ),
    Route("POST", f"{_PATH}/pause", pause, Right.ADMIN, _TAG, "Pause delivery to a group", answers={204: None}),
    Route("POST", f"{_PATH}/resume", resume, Right.ADMIN, _TAG, "Resume delivery to a group", answers={204: None}),
)
