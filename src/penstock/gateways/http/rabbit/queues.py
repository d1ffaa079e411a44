"""Queues: looked at, declared, deleted, emptied."""

from __future__ import annotations

from penstock.broker.auth.rules import Action
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import EARLIEST
from penstock.codecs.amqp091.errors import named
from penstock.codecs.amqp091.wire import table_of
from penstock.core.errors import QueueExists
from penstock.gateways.http.rabbit.asked import (
    Asked,
    asked,
    at_vhost,
    bad_request,
    body_of,
    flag_of,
    listed,
    not_found,
    queries,
    shown,
    table_in,
)
from penstock.gateways.http.rabbit.rows import route
from penstock.gateways.http.rabbit.told import DEFAULT, binding_told, declared_as, default_binding, queue_told
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import NO_CONTENT, Reply
from penstock.queues.exchange_types import Destination
from penstock.queues.rabbit_arguments import STREAM, At, Declared, check, refuse_difference
from penstock.queues.rabbit_records import record_of
from penstock.queues.rabbit_settings import queue_settings

CREATED = Reply(201)


def queue_of(at: Asked, action: Action | None = None) -> Queue:
    """That of the path, by its very name; one that the caller may not see is not there."""
    name = at.exchange.parameters["queue"]
    found = at.exchange.ports.broker.declaring.queues.get((at.namespace, name))
    if found is None or not at.may(name):
        raise not_found()
    if action is not None:
        at.require_queue(action, name)
    return found


async def list_queues(exchange: Exchange) -> Reply:
    told = []
    queues = sorted(exchange.ports.broker.queues, key=lambda queue: queue.name)
    for at in asked(exchange):
        mine = [queue for queue in queues if queue.namespace == at.namespace and at.may(queue.name)]
        told += [queue_told(at, queue, exchange.state.rates) for queue in mine]
    return listed(exchange, told)


async def show_queue(exchange: Exchange) -> Reply:
    at = at_vhost(exchange)
    queue = queue_of(at)
    return shown(exchange, {**queue_told(at, queue, exchange.state.rates), "consumer_details": []})


async def put_queue(exchange: Exchange) -> Reply:
    at, body = at_vhost(exchange), await body_of(exchange)
    arguments = table_of(table_in(body, "arguments"))
    wanted = Declared(flag_of(body, "durable", True), False, flag_of(body, "auto_delete"), arguments)
    return CREATED if await declare(at, exchange.parameters["queue"], wanted) else NO_CONTENT


async def declare(at: Asked, name: str, wanted: Declared) -> bool:
    """False if it is there already, the same. AmqpError if it is another, or cannot be."""
    at.require_queue(Action.CONFIGURE, name)
    declaring, where = at.exchange.ports.broker.declaring, At(named("queue", name, at.vhost))
    found = declaring.queues.get((at.namespace, name))
    if found is None:
        check(wanted, where)
        settings = declaring.settings_for(name, {**queue_settings(wanted), "namespace": at.namespace})
        groups = () if wanted.type == STREAM else (DEFAULT,)
        try:
            if wanted.is_durable:
                await declaring.declare(settings, groups, declared=record_of(wanted))
            else:
                declaring.declare_volatile(settings, groups, declared=record_of(wanted))
        except QueueExists:
            found = declaring.called(name, at.namespace)
        else:
            return True
    refuse_difference(declared_as(found), wanted, where, is_ours=found.record.declared is None)
    return False


async def delete_queue(exchange: Exchange) -> Reply:
    at = at_vhost(exchange)
    queue, said = queue_of(at, Action.CONFIGURE), queries(exchange)
    what = named("queue", queue.name, at.vhost)
    if said.get("if-unused") == "true" and any(group.consumers for group in queue.groups.values()):
        raise bad_request(f"{what} in use")
    if said.get("if-empty") == "true" and queue.depth():
        raise bad_request(f"{what} not empty")
    await exchange.ports.broker.declaring.delete(queue)
    return NO_CONTENT


async def purge_queue(exchange: Exchange) -> Reply:
    """What is ready of the group that AMQP reads; other groups keep theirs. Of a queue without it: everything."""
    at = at_vhost(exchange)
    queue, broker = queue_of(at, Action.CONSUME), exchange.ports.broker
    if queue.record.declared is None and DEFAULT not in queue.groups:
        await broker.declaring.purge(queue)
    else:
        await broker.settling.purge_ready(await broker.group(queue, DEFAULT, EARLIEST))
    return NO_CONTENT


async def list_bindings(exchange: Exchange) -> Reply:
    at = at_vhost(exchange)
    queue = queue_of(at)
    found = exchange.ports.broker.exchanges.bindings(at.namespace, None, Destination("queue", queue.name))
    return listed(exchange, [binding_told(at, each) for each in (default_binding(queue.name), *found)])


ROUTES = (
    route("GET", "/api/queues", list_queues, "List queues"),
    route("GET", "/api/queues/{vhost}", list_queues, "List queues of a virtual host"),
    route("GET", "/api/queues/{vhost}/{queue}", show_queue, "Show a queue"),
    route("PUT", "/api/queues/{vhost}/{queue}", put_queue, "Declare a queue"),
    route("DELETE", "/api/queues/{vhost}/{queue}", delete_queue, "Delete a queue"),
    route("DELETE", "/api/queues/{vhost}/{queue}/contents", purge_queue, "Purge a queue"),
    route("GET", "/api/queues/{vhost}/{queue}/bindings", list_bindings, "List bindings of a queue"),
)
