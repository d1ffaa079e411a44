"""Queues: declared, described, changed, emptied, stopped, deleted."""

from __future__ import annotations

import hashlib

import msgspec

from penstock.broker.descriptions import describe_group, describe_queue, shown_settings
from penstock.broker.queues.queue import Queue
from penstock.codecs.http.administration import Purged, Queues, QueueSummary
from penstock.core.descriptions import MemberDescription, PartitionDescription, QueueDescription
from penstock.core.errors import NotAuthorised
from penstock.core.queue_paths import queue_topic
from penstock.gateways.http.describe.settings_schema import settings_schema
from penstock.gateways.http.server.exchange import Exchange, Query
from penstock.gateways.http.server.pages import PageQuery, page
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import NO_CONTENT, Headers, Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.queues.settings import queue_json

_TAG = "Queues"
_PATH = f"{API}/queues/{{queue}}"

Settings = dict[str, object]
"""as docs/howto/queues.md has them"""


class QueueStats(msgspec.Struct, frozen=True):
    """Counts since the server was started."""

    name: str
    messages: int
    depth: int
    published: int
    refused: int
    groups: dict[str, GroupStats]


class GroupStats(msgspec.Struct, frozen=True):
    lag: int
    lag_s: float
    in_flight: int
    waiting: int
    members: int
    delivered: int
    redelivered: int
    acked: int
    failed: int
    dead_lettered: int


class GroupConsumers(msgspec.Struct, frozen=True):
    group: str
    consumers: list[MemberDescription]


class Consumers(msgspec.Struct, frozen=True):
    items: list[GroupConsumers]


class Partitions(msgspec.Struct, frozen=True):
    items: list[PartitionDescription]


class DryRunQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dry_run: bool = False
    """say what would happen, and change nothing"""


class DeclareQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    if_absent: bool = False
    """succeed if the queue exists, whatever its settings"""


def require_look(exchange: Exchange, queue: str) -> None:
    """Whoever may look at everything, consume the queue or publish to it may see what it is."""
    allowed = exchange.permissions
    if not (allowed.may_read or allowed.may_consume(queue) or allowed.may_publish(queue_topic(queue).encode())):
        raise NotAuthorised(f"{exchange.identity.name} may not look at queue {queue!r}")


async def list_queues(exchange: Exchange) -> Reply:
    """Those that the caller may see."""
    query, found = exchange.query(PageQuery), []
    for queue in exchange.ports.broker.queues:
        if queue.namespace == exchange.namespace:
            try:
                require_look(exchange, queue.name)
            except NotAuthorised:
                continue
            found.append(queue)
    found.sort(key=_name)
    part, following = page(found, _name, query)
    return json_reply(Queues([_summary(queue) for queue in part], following))


async def create_queue(exchange: Exchange) -> Reply:
    settings = await exchange.read(Settings)
    wanted = settings.get("namespace", exchange.namespace)
    if not exchange.permissions.administers(str(wanted)):
        raise NotAuthorised(f"{exchange.identity.name} makes queues in namespace {exchange.namespace!r} only")
    if_absent = exchange.query(DeclareQuery).if_absent
    queue = await exchange.ports.broker.declare({**settings, "namespace": wanted}, if_absent=if_absent)
    described = await describe_queue(queue, exchange.ports.broker.wall())
    return json_reply(described, 201, [_etag(queue)])


async def describe(exchange: Exchange) -> Reply:
    require_look(exchange, exchange.queue_name)
    queue = exchange.queue()
    return json_reply(await describe_queue(queue, exchange.ports.broker.wall()), headers=[_etag(queue)])


async def delete_queue(exchange: Exchange) -> Reply:
    queue, is_dry = exchange.queue(), exchange.query(DryRunQuery).dry_run
    require_match(exchange, queue)
    if not is_dry:
        await exchange.ports.broker.declaring.delete(queue)
    return NO_CONTENT


async def show_config(exchange: Exchange) -> Reply:
    require_look(exchange, exchange.queue_name)
    queue = exchange.queue()
    return json_reply(shown_settings(queue), headers=[_etag(queue)])


async def change_config(exchange: Exchange) -> Reply:
    """What is not named stays as it is."""
    changes = await exchange.read(Settings)
    queue = exchange.queue()
    require_match(exchange, queue)
    await exchange.ports.broker.declaring.change(queue, changes)
    return json_reply(shown_settings(queue), headers=[_etag(queue)])


async def stats(exchange: Exchange) -> Reply:
    require_look(exchange, exchange.queue_name)
    told = await describe_queue(exchange.queue(), exchange.ports.broker.wall())
    return json_reply(_stats(told))


async def consumers(exchange: Exchange) -> Reply:
    require_look(exchange, exchange.queue_name)
    queue, now = exchange.queue(), exchange.ports.broker.wall()
    told = [await describe_group(group, now) for group in list(queue.groups.values())]
    return json_reply(Consumers([GroupConsumers(group.name, group.members) for group in told]))


async def partitions(exchange: Exchange) -> Reply:
    require_look(exchange, exchange.queue_name)
    told = await describe_queue(exchange.queue(), exchange.ports.broker.wall())
    return json_reply(Partitions(told.partitions))


async def purge(exchange: Exchange) -> Reply:
    queue, is_dry = exchange.queue(), exchange.query(DryRunQuery).dry_run
    if is_dry:
        return json_reply(Purged(_messages(queue), True))
    return json_reply(Purged(await exchange.ports.broker.declaring.purge(queue), False))


async def pause(exchange: Exchange) -> Reply:
    await exchange.ports.broker.declaring.pause(exchange.queue(), True)
    return NO_CONTENT


async def resume(exchange: Exchange) -> Reply:
    await exchange.ports.broker.declaring.pause(exchange.queue(), False)
    return NO_CONTENT


def _name(queue: Queue) -> str:
    return queue.name


def _messages(queue: Queue) -> int:
    return sum([max(unit.end - unit.start - unit.missing(unit.start), 0) for unit in queue.units.values()])


def _summary(queue: Queue) -> QueueSummary:
    return QueueSummary(
        name=queue.name,
        namespace=queue.namespace,
        partitions=queue.settings.partitions,
        messages=_messages(queue),
        depth=queue.depth(),
        groups=len(queue.groups),
        consumers=sum([len(group.consumers) for group in queue.groups.values()]),
        is_paused=queue.is_paused,
        is_auto=queue.record.is_auto,
        is_volatile=queue.is_volatile,
    )


def _stats(told: QueueDescription) -> QueueStats:
    groups = {
        group.name: GroupStats(
            lag=group.lag,
            lag_s=group.lag_s,
            in_flight=group.in_flight,
            waiting=group.waiting,
            members=len(group.members),
            delivered=group.counts.delivered,
            redelivered=group.counts.redelivered,
            acked=group.counts.acked,
            failed=group.counts.failed,
            dead_lettered=group.counts.dead_lettered,
        )
        for group in told.groups
    }
    return QueueStats(told.name, told.messages, told.depth, told.published, told.refused, groups)


def _etag(queue: Queue) -> tuple[bytes, bytes]:
    """Changes with the settings, and with the queue."""
    said = msgspec.json.encode((queue.incarnation, queue_json(queue.own)), order="deterministic")
    return b"etag", b'"%s"' % hashlib.blake2b(said, digest_size=8).hexdigest().encode()


def require_match(exchange: Exchange, queue: Queue) -> None:
    """What the caller has seen is what is there, if it says what it has seen."""
    wanted = exchange.header(b"if-match")
    if wanted is None or wanted.strip() == b"*":
        return
    current = _etag(queue)[1]
    if current not in [each.strip() for each in wanted.split(b",")]:
        detail = f"queue {queue.name!r} was changed meanwhile: look at it again, then send If-Match with its new ETag"
        headers: Headers = ((b"etag", current),)
        raise Refusal(412, "precondition-failed", detail, headers=headers)


ROUTES = (
    Route(
        "GET", f"{API}/queues", list_queues, Right.LOGIN, _TAG, "List queues", query=PageQuery, answers={200: Queues}
    ),
    Route(
        "POST",
        f"{API}/queues",
        create_queue,
        Right.ADMIN,
        _TAG,
        "Create a queue",
        "The body has the settings of the queue; only `name` is required. Not in the schema: initial_backoff is at "
        "most max_backoff, and the dead letters of a queue go to another queue.",
        body=Settings,
        body_schema=settings_schema(is_new=True),
        query=DeclareQuery,
        answers={201: QueueDescription},
    ),
    Route("GET", _PATH, describe, Right.LOGIN, _TAG, "Describe a queue", answers={200: QueueDescription}),
    Route("DELETE", _PATH, delete_queue, Right.ADMIN, _TAG, "Delete a queue", query=DryRunQuery, answers={204: None}),
    Route(
        "GET", f"{_PATH}/config", show_config, Right.LOGIN, _TAG, "Get the settings of a queue", answers={200: Settings}
    ),
    Route(
        "PUT",
        f"{_PATH}/config",
        change_config,
        Right.ADMIN,
        _TAG,
        "Change the settings of a queue",
        "Settings that are not given stay as they are. The number of partitions can only be increased, and strict "
        "ordering cannot be turned on or off. With If-Match and the ETag of a GET, the request is refused if the "
        "settings have changed since.",
        body=Settings,
        body_schema=settings_schema(is_new=False),
        answers={200: Settings},
    ),
    Route("GET", f"{_PATH}/stats", stats, Right.LOGIN, _TAG, "Statistics of a queue", answers={200: QueueStats}),
    Route(
        "GET", f"{_PATH}/consumers", consumers, Right.LOGIN, _TAG, "List consumers of a queue", answers={200: Consumers}
    ),
    Route(
        "GET",
        f"{_PATH}/partitions",
        partitions,
        Right.LOGIN,
        _TAG,
        "List partitions of a queue",
        answers={200: Partitions},
    ),
    Route(
        "POST",
        f"{_PATH}/purge",
        purge,
        Right.ADMIN,
        _TAG,
        "Delete all messages of a queue",
        query=DryRunQuery,
        answers={200: Purged},
    ),
    Route("POST", f"{_PATH}/pause", pause, Right.ADMIN, _TAG, "Pause a queue", answers={204: None}),
    Route("POST", f"{_PATH}/resume", resume, Right.ADMIN, _TAG, "Resume a queue", answers={204: None}),
)
