"""Topics: publishing to them, and what is retained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated

import msgspec
from msgspec import UNSET

from penstock.broker.feed.stored import StoredBatch
from penstock.codecs.http.messages import (
    Message,
    OutgoingMessage,
    RetainedMessages,
    TopicMessage,
    TopicPublish,
    TopicReport,
)
from penstock.codecs.http.shapes import TopicFilter
from penstock.gateways.http.messages.bodies import columns_of, raw_message, refuse_both
from penstock.gateways.http.messages.message_rows import ANSWER_BYTES, message_of, size_of
from penstock.gateways.http.server.exchange import Exchange, Query, decoded
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import NO_CONTENT, Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.log.columns import Columns
from penstock.queues.names import check_filter

_TAG = "Topics"
_MOST_RETAINED = 1000


class RetainedQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    filter: TopicFilter = "#"
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST_RETAINED)] = 100


async def publish_to_topic(exchange: Exchange) -> Reply:
    """The topic is that of the path."""
    topic = exchange.parameters["topic"]
    if exchange.content_type == "application/json":
        messages = _messages(decoded(await exchange.body(), TopicPublish))
    else:
        raw = raw_message(exchange.scope["headers"], await exchange.body())
        messages = [TopicMessage(**{name: getattr(raw, name) for name in OutgoingMessage.__struct_fields__})]
    if any(message.topic is not None for message in messages):
        raise Refusal(400, "malformed-body", "topic: it is in the path, leave it out of the message", "topic")
    return await _publish(exchange, [msgspec.structs.replace(each, topic=topic) for each in messages])


async def publish(exchange: Exchange) -> Reply:
    """Each message has its topic."""
    messages = _messages(await exchange.read(TopicPublish))
    for number, message in enumerate(messages):
        if message.topic is None:
            field = f"messages[{number}].topic"
            raise Refusal(400, "malformed-body", f"{field} is missing", field)
    return await _publish(exchange, messages)


async def _publish(exchange: Exchange, messages: Sequence[TopicMessage]) -> Reply:
    for topic in {message.topic or "" for message in messages}:
        exchange.require_publish(topic)
    exchange.take_rate(len(messages))
    matched, made = 0, dict[bytes, str]()
    for (qos, retain), some in _alike(messages):
        matched += await exchange.ports.topics.send(
            columns_of(some),
            qos=qos,
            retain=retain,
            publisher=exchange.connection.publisher,
            namespace=exchange.namespace,
            made=made,
        )
    exchange.state.counters.received += len(messages)
    return json_reply(TopicReport(len(messages), matched, sorted(made.values()) or UNSET))


def _messages(body: TopicPublish) -> Sequence[TopicMessage]:
    messages: Sequence[TopicMessage] = [body]
    if body.messages is not UNSET:
        refuse_both(body)
        messages = body.messages
    if not messages:
        raise Refusal(400, "malformed-body", "messages: the list is empty, give at least one message", "messages")
    if any(message.partition is not None for message in messages):
        raise Refusal(400, "malformed-body", "partition: only queues have partitions", "partition")
    return messages


def _alike(messages: Sequence[TopicMessage]) -> list[tuple[tuple[int, bool], list[TopicMessage]]]:
    """Those that follow each other: they stay in their order."""
    return [(how, list(some)) for how, some in groupby(messages, lambda message: (message.qos, message.retain))]


async def list_retained(exchange: Exchange) -> Reply:
    query = exchange.query(RetainedQuery)
    check_filter(query.filter)
    space = exchange.ports.retained.spaces.get(exchange.namespace)
    if space is None:
        return json_reply(RetainedMessages(0, []))
    found = await space.matched(query.filter.encode(), query.limit)
    items: list[Message] = []
    async for stored, numbers in space.read(found):
        items += _retained(stored, numbers)
        if size_of(items) >= ANSWER_BYTES:
            break
    return json_reply(RetainedMessages(space.count, items))


def _retained(stored: StoredBatch, numbers: Sequence[int]) -> list[Message]:
    """Their key is the topic, by which they are stored."""
    rows = [row._replace(key=None) for row in stored.messages(numbers)]
    return [message_of("@retained:", "", 0, row) for row in rows]


async def remove_retained(exchange: Exchange) -> Reply:
    """As an empty retained message does."""
    topic = exchange.parameters["topic"]
    space = exchange.ports.retained.spaces.get(exchange.namespace)
    if space is None or space.find(topic.encode()) < 0:
        raise Refusal(404, "not-found", f"nothing is retained under {topic!r}")
    columns = Columns.of([b""], topics=[topic.encode()])
    publisher = exchange.connection.publisher
    await exchange.ports.topics.send(columns, qos=1, retain=True, publisher=publisher, namespace=exchange.namespace)
    return NO_CONTENT


_UNNAMED = {"topic": {"type": "null"}}
_NAMED = {"topic": {"type": "string"}}
_ALL_NAMED = {"items": {"required": ["topic"], "properties": _NAMED}}

ROUTES = (
    Route(
        "POST",
        f"{API}/topics/{{topic}}/messages",
        publish_to_topic,
        Right.LOGIN,
        _TAG,
        "Publish to a topic",
        "To subscribers of every protocol, to bound queues, and with retain to those who come later.",
        body=TopicPublish,
        body_schema={"properties": {**_UNNAMED, "messages": {"items": {"properties": _UNNAMED}}}},
        body_types=("application/json", "application/octet-stream"),
        answers={200: TopicReport},
    ),
    Route(
        "POST",
        f"{API}/publish",
        publish,
        Right.LOGIN,
        _TAG,
        "Publish to topics",
        body=TopicPublish,
        body_schema={
            "anyOf": [
                {"required": ["topic"], "properties": _NAMED},
                {"required": ["messages"], "properties": {"messages": _ALL_NAMED}},
            ]
        },
        answers={200: TopicReport},
    ),
    Route(
        "GET",
        f"{API}/retained",
        list_retained,
        Right.READ,
        _TAG,
        "List retained messages",
        query=RetainedQuery,
        answers={200: RetainedMessages},
    ),
    Route(
        "DELETE",
        f"{API}/retained/{{topic}}",
        remove_retained,
        Right.ADMIN,
        _TAG,
        "Remove a retained message",
        answers={204: None},
    ),
)
