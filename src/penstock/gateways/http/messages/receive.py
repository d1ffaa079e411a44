"""Taking messages of a group: each is the caller's for a while, and comes again unless it is settled."""

from __future__ import annotations

import re

from penstock.broker.feed.delivery import Delivery, take_back
from penstock.broker.queues.partitioned import PartitionedQueue
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import EARLIEST, Start
from penstock.codecs.http.deliveries import ReceiveBody
from penstock.codecs.http.messages import Message, Received
from penstock.codecs.http.spans import LONGEST_LEASE_S, LONGEST_WAIT_S
from penstock.gateways.http.messages.message_rows import ANSWER_BYTES, message_of, size_of
from penstock.gateways.http.server.durations import seconds_of
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route

# Large messages are what memory is about: a thousand of 1 MiB would be one answer of 1.4 GiB.
_STEP_BYTES = 64 << 20
_OCTETS = b"application/octet-stream"
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


async def receive(exchange: Exchange) -> Reply:
    exchange.require_consume(exchange.queue_name)
    body = await exchange.read(ReceiveBody)
    wait_s = seconds_of(body.wait, "wait", LONGEST_WAIT_S)
    is_raw = _OCTETS in (exchange.header(b"accept") or b"")
    if is_raw and body.max != 1:
        raise Refusal(400, "invalid-argument", "one message at a time as application/octet-stream: max is 1", "max")
    lease_ms = None
    if body.visibility is not None:
        lease_ms = round(1000 * seconds_of(body.visibility, "visibility", LONGEST_LEASE_S))
    broker, queue = exchange.ports.broker, exchange.queue()
    start = EARLIEST if body.start == "earliest" else Start.parse(body.start)
    group = await broker.group(queue, body.group, start)
    receipts, step = exchange.state.receipts, step_of(queue)
    session = receipts.session(group, exchange.identity.name, body.consumer)
    suffix, is_base64 = receipts.suffix(group, session), body.encoding == "base64"
    asked = min(body.max, step)
    pulling = broker.pull(group, session, asked, wait_s, lease_ms)
    found = await (pulling if not wait_s else exchange.while_connected(pulling, take_back))
    if is_raw:
        exchange.state.counters.sent += len(found)
        return _raw(queue, found, suffix)
    messages: list[Message] = []
    while found:
        some = [each for delivery in found for each in messages_of(queue, delivery, suffix, is_base64)]
        messages += some
        left = body.max - len(messages)
        # Fewer than were asked for: there are no more, but for those of which the lease is over already.
        if len(some) < asked or left <= 0 or size_of(messages) >= ANSWER_BYTES:
            break
        asked = min(left, step)
        found = await broker.pull(group, session, asked, 0, lease_ms)
    exchange.state.counters.sent += len(messages)
    return json_reply(Received(messages))


def step_of(queue: Queue) -> int:
    """How many messages are taken at once, before their size is looked at."""
    return max(1, _STEP_BYTES // queue.settings.limits.max_message_size_bytes)


def messages_of(queue: PartitionedQueue, delivery: Delivery, suffix: str, is_base64: bool) -> list[Message]:
    """`suffix` is that of the consumer's receipts."""
    partition = delivery.unit.partition
    prefix, name = queue.message_id_prefix(partition), queue.name
    rows = delivery.stored.messages(delivery.rows)
    return [
        message_of(prefix, name, partition, row, is_base64, f"{prefix}{row.offset}~{count}{suffix}", count)
        for row, count in zip(rows, delivery.counts, strict=True)
    ]


def _raw(queue: Queue, found: list[Delivery], suffix: str) -> Reply:
    """The value as it is, the rest in headers; 204 if there is none."""
    if not found:
        return Reply(204)
    [delivery] = found
    [message] = messages_of(queue, delivery, suffix, False)
    said: list[tuple[str, str | None]] = [
        ("penstock-id", message.id),
        ("penstock-receipt", message.receipt),
        ("penstock-partition", str(message.partition)),
        ("penstock-offset", str(message.offset)),
        ("penstock-timestamp-ms", str(message.timestamp_ms)),
        ("penstock-deliveries", str(message.deliveries)),
        ("penstock-key", message.key),
        ("penstock-topic", message.topic),
        ("penstock-reply-to", message.reply_to),
        ("penstock-correlation-id", message.correlation_id),
        *((f"penstock-header-{name}", value) for name, value in message.headers),
    ]
    headers = [(name.encode(), value.encode()) for name, value in said if value is not None and _fits(name, value)]
    content_type = message.content_type or ""
    kind = content_type.encode() if _fits("content-type", content_type) and content_type else _OCTETS
    return Reply(200, delivery.stored.value(delivery.rows[0]), kind, headers)


def _fits(name: str, value: str) -> bool:
    """Whether HTTP can carry it as a header; what it cannot is in the JSON form."""
    return _NAME.fullmatch(name) is not None and value.isprintable()


ROUTES = (
    Route(
        "POST",
        f"{API}/queues/{{queue}}/receive",
        receive,
        Right.LOGIN,
        "Messages",
        "Receive messages of a group",
        "Waits for the first up to `wait`. Each message has a receipt to settle it with; one that is not settled "
        "within `visibility` comes again. Of large messages there are fewer than `max` at a time. With Accept: "
        "application/octet-stream and max 1 the answer is the value.",
        body=ReceiveBody,
        answers={200: Received, 204: None},
        answer_types=("application/json", "application/octet-stream"),
    ),
)
