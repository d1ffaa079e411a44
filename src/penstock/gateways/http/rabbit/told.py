"""Queues, exchanges and bindings as RabbitMQ's API shows them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec

from penstock.broker.catalogue.exchanging import Bound
from penstock.broker.descriptions import ready_and_held
from penstock.broker.queues.queue import Queue
from penstock.codecs.amqp091.wire import plain
from penstock.core.descriptions import Tally
from penstock.gateways.http.rabbit.asked import Asked, Json
from penstock.gateways.http.rabbit.rates import Rates
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import Exchange
from penstock.queues.names import GroupName
from penstock.queues.policies import Policy, chosen
from penstock.queues.rabbit_arguments import CLASSIC, Declared
from penstock.queues.rabbit_records import declared_of
from penstock.queues.rabbit_settings import DEFAULT_GROUP, arguments_of

NODE = "penstock@localhost"
DEFAULT = GroupName(DEFAULT_GROUP)


def declared_as(queue: Queue) -> Declared:
    return declared_of(queue.record.declared) or Declared(arguments=arguments_of(queue.own))


def tally_of(queue: Queue) -> Tally:
    tally = Tally()
    tally.add(queue.past)
    for group in queue.groups.values():
        tally.add(*[group.cursor(unit).tally for unit in queue.units.values()])
    return tally


def policy_of(asked: Asked, queue: Queue) -> Policy | None:
    declaring = asked.exchange.ports.broker.declaring
    mine = [each for (namespace, _), each in declaring.policies.items() if namespace == queue.namespace]
    declared = declared_of(queue.record.declared)
    return chosen(mine, queue.name, CLASSIC if declared is None else declared.type)


def queue_told(asked: Asked, queue: Queue, rates: Rates) -> Json:
    declared, policy = declared_as(queue), policy_of(asked, queue)
    ready, unacknowledged = ready_and_held(queue)
    return {
        "name": queue.name,
        "vhost": asked.vhost,
        "type": declared.type,
        "durable": declared.is_durable,
        "auto_delete": declared.auto_delete,
        "exclusive": declared.is_exclusive,
        "arguments": {name: _printable(plain(field)) for name, field in declared.arguments.items()},
        "node": NODE,
        "state": "running",
        "policy": None if policy is None else policy.name,
        "operator_policy": None,
        "effective_policy_definition": {} if policy is None else policy.record.definition,
        "consumers": sum([len(group.consumers) for group in queue.groups.values()]),
        "consumer_utilisation": None,
        "exclusive_consumer_tag": None,
        "messages": ready + unacknowledged,
        "messages_ready": ready,
        "messages_unacknowledged": unacknowledged,
        "messages_persistent": ready + unacknowledged,
        "messages_details": {"rate": 0.0},
        "messages_ready_details": {"rate": 0.0},
        "messages_unacknowledged_details": {"rate": 0.0},
        "memory": 0,
        "idle_since": _time_text(asked, queue),
        "message_stats": _stats(asked, queue, rates),
    }


def _stats(asked: Asked, queue: Queue, rates: Rates) -> Json:
    tally = tally_of(queue)
    now_s = asked.exchange.ports.broker.clock.monotonic()
    publish, deliver, ack = rates.of(queue, now_s, queue.published, tally.delivered, tally.acked)
    return {
        "publish": queue.published,
        "publish_details": {"rate": publish},
        "deliver": tally.delivered,
        "deliver_details": {"rate": deliver},
        "deliver_get": tally.delivered,
        "deliver_get_details": {"rate": deliver},
        "ack": tally.acked,
        "ack_details": {"rate": ack},
        "redeliver": tally.redelivered,
        "redeliver_details": {"rate": 0.0},
    }


def _time_text(asked: Asked, queue: Queue) -> str:
    """When messages came or went last, as far as it is known."""
    broker = asked.exchange.ports.broker
    wall_ms = broker.wall() - max(broker.shard.timeline.now() - max(queue.used_ms, queue.made_ms), 0)
    return datetime.fromtimestamp(max(wall_ms, 0) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000+00:00")


def _printable(value: object) -> object:
    """JSON has no bytes and no halves of characters."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {name: _printable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_printable(inner) for inner in value]
    return value if isinstance(value, int | float | None) else str(value)


def exchange_told(asked: Asked, exchange: Exchange) -> Json:
    arguments: Json = {name: _printable(value) for name, value in exchange.arguments.items()}
    if exchange.alternate is not None:
        arguments["alternate-exchange"] = exchange.alternate
    return {
        "name": exchange.name,
        "vhost": asked.vhost,
        "type": exchange.type,
        "durable": exchange.is_durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": arguments,
        "user_who_performed_action": "rmq-internal" if exchange.is_predeclared else "",
    }


def binding_told(asked: Asked, bound: Bound) -> Json:
    return {
        "source": bound.source,
        "vhost": asked.vhost,
        "destination": bound.destination.name,
        "destination_type": bound.destination.kind,
        "routing_key": bound.key,
        "arguments": {name: _printable(value) for name, value in bound.arguments.items()},
        "properties_key": properties_key(bound.key, bound.arguments),
    }


def default_binding(queue: str) -> Bound:
    return Bound("", Destination("queue", queue), queue, {})


def properties_key(key: str, arguments: Mapping[str, object]) -> str:
    """What names one of the bindings between two: the key, and a hash of its arguments."""
    said = quote(key, safe="") if key else "~" if not arguments else ""
    if not arguments:
        return said
    encoded = msgspec.json.encode(_printable(dict(arguments)), order="deterministic")
    return f"{said}~{hashlib.blake2s(encoded, digest_size=12).hexdigest()}"
