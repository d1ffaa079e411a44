"""Publishing to an exchange, and taking messages of a queue to look at."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import NamedTuple

from penstock.broker.auth.rules import Action
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.feed.settling import Settlement, Settling
from penstock.broker.queues.start import EARLIEST
from penstock.codecs.amqp091.properties import Properties, properties_bytes, read_properties
from penstock.codecs.amqp091.wire import plain, table_of
from penstock.core.errors import InvalidArgument, NoSuchExchange, PenstockError
from penstock.gateways.http.rabbit.asked import (
    Json,
    at_vhost,
    bad_request,
    body_of,
    exchange_name,
    not_found,
    table_in,
    text_of,
)
from penstock.gateways.http.rabbit.queues import queue_of
from penstock.gateways.http.rabbit.rows import route
from penstock.gateways.http.rabbit.told import DEFAULT
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import Reply, json_reply
from penstock.kernels.amqp_columns import NATIVE_KIND as KIND
from penstock.log.batch import Row
from penstock.log.columns import Columns
from penstock.queues.exchange_topics import exchange_address, exchange_topic, swapped

_MOST_MESSAGES, _LEASE_MS = 1000, 60_000
_ANSWER_BYTES = 16 << 20
_ACK_MODES = {
    "ack_requeue_true": "release",
    "reject_requeue_true": "release",
    "ack_requeue_false": "ack",
    "reject_requeue_false": "reject",
}


class Way(NamedTuple):
    exchange: str
    key: str


async def publish(request: Exchange) -> Reply:
    at, body = at_vhost(request), await body_of(request)
    name, key = exchange_name(request), text_of(body, "routing_key").encode()
    if name not in request.ports.broker.exchanges.of(at.namespace):
        raise not_found()
    at.require_exchange(Action.PUBLISH, name, key)
    request.take_rate(1)
    native = bytes([KIND]) + properties_bytes(_properties(table_in(body, "properties")))
    columns = Columns.of([_payload(body)], topics=[exchange_topic(name, key)], native=[native])
    try:
        routed = await request.ports.topics.send(
            columns, qos=1, retain=False, publisher=request.connection.publisher, namespace=at.namespace
        )
    except NoSuchExchange:
        raise not_found() from None
    request.state.counters.received += 1
    return json_reply({"routed": bool(routed)})


def _payload(body: Json) -> bytes:
    payload, encoding = text_of(body, "payload"), text_of(body, "payload_encoding", "string")
    if encoding == "string":
        return payload.encode("utf-8", "replace")
    if encoding != "base64":
        raise bad_request(f"payload_encoding is {encoding[:40]!r}: give string or base64")
    try:
        return b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("payload is not base64") from None


def _properties(said: Mapping[str, object]) -> Properties:
    """InvalidArgument for what AMQP cannot say."""
    found: dict[str, object] = {}
    for name, value in said.items():
        if name not in Properties.__struct_fields__:
            raise bad_request(f"{name[:40]!r} is not a property of messages")
        if name == "headers":
            found[name] = table_of(value) if isinstance(value, dict) else None
        elif name in ("delivery_mode", "priority", "timestamp"):
            most = (1 << 64) - 1 if name == "timestamp" else 255
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
                raise bad_request(f"the property {name} is not a whole number from 0 to {most}")
            found[name] = value
        else:
            found[name] = str(value)
    return Properties(**found)  # type: ignore[arg-type]  # as they were looked at


async def get(request: Exchange) -> Reply:
    """Messages are taken and given back, or settled, as `ackmode` says."""
    at, body = at_vhost(request), await body_of(request)
    queue = queue_of(at, Action.CONSUME)
    mode = _ACK_MODES.get(text_of(body, "ackmode", "ack_requeue_true"))
    count, truncate = _number(body, "count", 1), _number(body, "truncate", 0)
    if mode is None or not 0 < count <= _MOST_MESSAGES:
        raise bad_request(f"ackmode is one of {', '.join(_ACK_MODES)}, and count from 1 to {_MOST_MESSAGES}")
    broker = request.ports.broker
    group = await broker.group(queue, DEFAULT, EARLIEST)
    session = request.state.receipts.session(group, request.identity.name, "management")
    taken, told, size = list[Delivery](), list[Json](), 0
    try:
        while len(told) < count and size < _ANSWER_BYTES:
            found = await broker.pull(group, session, 1, 0, _LEASE_MS)
            if not found:
                break
            taken += found
            for delivery in found:
                for row, times in zip(delivery.stored.messages(delivery.rows), delivery.counts, strict=True):
                    told.append(_message(row, times, truncate, text_of(body, "encoding", "auto")))
                    size += len(row.value)
    finally:
        settling = broker.settling
        for delivery in reversed(taken):
            held = Held(delivery)
            await (settling.release(held) if mode == "release" else _settled(settling, mode, held))
    ready = group.ready()
    request.state.counters.sent += len(told)
    return json_reply([{**each, "message_count": ready} for each in told])


def _settled(settling: Settling, mode: str, held: Held) -> Settlement:
    return settling.ack(held) if mode == "ack" else settling.reject(held)


def _message(row: Row, times: int, truncate: int, encoding: str) -> Json:
    way, payload = way_of(row.topic or b""), row.value[:truncate] if truncate else row.value
    try:
        text, kind = (payload.decode(), "string") if encoding == "auto" else ("", "")
    except UnicodeDecodeError:
        kind = ""
    if not kind:
        text, kind = b64encode(payload).decode(), "base64"
    return {
        "payload_bytes": len(row.value),
        "redelivered": times > 1,
        "exchange": way.exchange,
        "routing_key": way.key,
        "properties": _told_properties(row.native),
        "payload": text,
        "payload_encoding": kind,
    }


def way_of(topic: bytes) -> Way:
    """As which exchange and routing key a message of a topic came."""
    try:
        address = exchange_address(topic)
    except InvalidArgument:
        address = None
    if address is not None:
        return Way(address.exchange, address.key.decode("utf-8", "replace"))
    if topic.startswith(b"$queue/"):
        return Way("", topic.removeprefix(b"$queue/").decode("utf-8", "replace"))
    return Way("amq.topic", swapped(topic).decode("utf-8", "replace"))


def _told_properties(native: bytes | None) -> Json:
    if native is None or native[:1] != bytes([KIND]):
        return {}
    try:
        found = read_properties(native[1:])
    except PenstockError:
        return {}
    said = {name: getattr(found, name) for name in Properties.__struct_fields__}
    told = {name: value for name, value in said.items() if value is not None}
    if found.headers is not None:
        told["headers"] = {name: _text(plain(field)) for name, field in found.headers.items()}
    return told


def _text(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {name: _text(inner) for name, inner in value.items()}
    return [_text(inner) for inner in value] if isinstance(value, list) else value


def _number(body: Json, key: str, default: int) -> int:
    """Tools send numbers as text too."""
    found = body.get(key, default)
    if isinstance(found, str) and found.isdecimal() and len(found) < 10:
        return int(found)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise bad_request(f"{key} is not a whole number")
    return found


ROUTES = (
    route("POST", "/api/exchanges/{vhost}/{exchange}/publish", publish, "Publish"),
    route("POST", "/api/queues/{vhost}/{queue}/get", get, "Get messages"),
)
