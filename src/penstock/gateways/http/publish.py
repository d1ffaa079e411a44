"""Publishing to a queue: one message or many, as JSON, as lines of JSON, or as the body itself."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET

from penstock.broker.publish.request import ProducerCall, Published
from penstock.broker.queue import Placed, Queue
from penstock.codecs.http.messages import (
    OutgoingMessage,
    Producer,
    PublishBody,
    PublishedMessage,
    PublishReport,
)
from penstock.gateways.http.bodies import columns_of, plain_texts, plain_value, refuse_both
from penstock.gateways.http.exchange import Exchange, Query, decoded
from penstock.gateways.http.gathering import MOST_BYTES
from penstock.gateways.http.problems import Refusal
from penstock.gateways.http.publish_answered import LineResult, answer_lines
from penstock.gateways.http.publish_lines import LINES, LinesReport, publish_lines
from penstock.gateways.http.publish_raw import raw_message
from penstock.gateways.http.published import message_of, results_of
from penstock.gateways.http.reply import Reply, json_reply
from penstock.gateways.http.rights import Right
from penstock.gateways.http.routes import API, Route
from penstock.log.columns import Columns
from penstock.log.faults import Telling
from penstock.queues.names import is_dead_letter_queue

logger = logging.getLogger("penstock.http")
_telling = Telling(logger)

_MAX_IDEMPOTENCY_KEY_BYTES = 200


class PublishQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    acks: Literal["none", "leader", "all"] = "all"
    """`none` answers before the messages are on disk"""


async def publish(exchange: Exchange) -> Reply | None:
    name = exchange.queue_name
    exchange.require_publish(name if is_dead_letter_queue(name) else f"$queue/{name}")
    queue = exchange.ports.broker.publishing.routes.wanted(name, {"namespace": exchange.namespace})
    acks = exchange.query(PublishQuery).acks if exchange.scope["query_string"] else "all"
    messages: Sequence[OutgoingMessage]
    kind = exchange.content_type
    if kind == LINES:
        is_answered = LINES.encode() in (exchange.header(b"accept") or b"")
        return await (answer_lines if is_answered else publish_lines)(exchange, queue)
    if kind == "application/json":
        raw = await exchange.body()
        if (texts := plain_texts(raw)) is not None:
            return await _publish_columns(exchange, queue, Columns.of(texts), None, None, acks)
        body = decoded(raw, PublishBody)
        messages, said = _messages(body), body.producer
    else:
        messages, said = [raw_message(exchange, await exchange.body())], None
    is_single = acks != "none" and said is None and exchange.header(b"idempotency-key") is None
    if is_single and (plain := plain_value(messages)) is not None and len(plain) <= MOST_BYTES:
        exchange.take_rate(1)
        exchange.state.counters.received += 1
        made: list[Queue] = []
        if queue.is_unmade:
            queue = await exchange.ports.broker.publishing.routes.made(queue, [Columns.of([plain])], made=made)
        return json_reply(_noted(await _put_plain(exchange, queue, plain), made))
    return await _publish_columns(exchange, queue, columns_of(messages), _partition(messages), said, acks)


async def _publish_columns(
    exchange: Exchange, queue: Queue, columns: Columns, partition: int | None, said: Producer | None, acks: str
) -> Reply:
    exchange.take_rate(columns.count)
    exchange.state.counters.received += columns.count
    producer = _producer(exchange, said)
    made: list[Queue] = []
    queue = await exchange.ports.broker.publishing.routes.made(queue, [columns], partition, producer, made)
    if acks == "none" and producer is None:
        return json_reply(_noted(await _put_unwaited(exchange, queue, columns, partition), made), 202)
    return json_reply(_noted(await put(exchange, queue, columns, partition, producer), made))


def _noted(report: PublishReport, made: list[Queue]) -> PublishReport:
    return msgspec.structs.replace(report, created=True) if made else report


async def _put_plain(exchange: Exchange, queue: Queue, value: bytes) -> PublishReport:
    """With others that come at the same time, if all of them can be taken at once."""
    placed = await exchange.state.gathering.put(queue, value, exchange.connection.publisher)
    if placed is None:
        return await put(exchange, queue, Columns.of([value]), None)
    return PublishReport(1, 0, [message_of(queue, placed.partition, placed.base_offset)])


async def put(
    exchange: Exchange, queue: Queue, columns: Columns, partition: int | None, producer: ProducerCall | None = None
) -> PublishReport:
    """Committed when it returns."""
    broker, publisher = exchange.ports.broker, exchange.connection.publisher
    if producer is None and (staged := broker.publishing.put_now(queue, columns, publisher, partition)) is not None:
        placed, committed = staged
        results = results_of(queue, columns, placed, publisher.partition(queue))
        await committed
        return PublishReport(columns.count, 0, results)
    published = await broker.publishing.put(queue, columns, publisher, partition, producer)
    return _report(published, columns, publisher.partition(queue))


async def _put_unwaited(exchange: Exchange, queue: Queue, columns: Columns, partition: int | None) -> PublishReport:
    publisher = exchange.connection.publisher
    staged = exchange.ports.broker.publishing.put_now(queue, columns, publisher, partition)
    if staged is None:
        return await put(exchange, queue, columns, partition)
    placed, committed = staged
    committed.add_done_callback(_note_loss)
    results = results_of(queue, columns, placed, publisher.partition(queue))
    return PublishReport(columns.count, 0, results)


def _note_loss(committed: asyncio.Future[None]) -> None:
    if not committed.cancelled() and (error := committed.exception()) is not None:
        _telling.warn("lost", "messages lost that nobody waited for error=%s", error)


def _messages(body: PublishBody) -> Sequence[OutgoingMessage]:
    if body.messages is UNSET:
        return [body]
    refuse_both(body)
    return body.messages


def _partition(messages: Sequence[OutgoingMessage]) -> int | None:
    if len(messages) == 1:
        return messages[0].partition
    wanted = {message.partition for message in messages}
    if len(wanted) > 1:
        field = "messages[0].partition"
        raise Refusal(400, "malformed-body", f"{field}: all messages of a request have the same one, or none", field)
    return wanted.pop() if wanted else None


def _producer(exchange: Exchange, said: Producer | None) -> ProducerCall | None:
    key = exchange.header(b"idempotency-key")
    if key is None:
        if said is None:
            return None
        return ProducerCall.owned(exchange.identity.mark, said.id, said.epoch, said.sequence)
    if said is not None:
        raise Refusal(400, "invalid-argument", "give a producer or an Idempotency-Key, not both", "producer")
    if not 0 < len(key) <= _MAX_IDEMPOTENCY_KEY_BYTES:
        detail = f"an Idempotency-Key has 1 to {_MAX_IDEMPOTENCY_KEY_BYTES} bytes, this one {len(key)}"
        raise Refusal(400, "invalid-argument", detail, "Idempotency-Key")
    return ProducerCall(_keyed(exchange.identity.name.encode(), key), 0, 0)


def _keyed(caller: bytes, key: bytes) -> bytes:
    """As a producer's id: the caller's own, whatever names and keys are made of, and none that a producer of any
    protocol can have, as those are text."""
    return b"\xff" + hashlib.blake2b(b"%d/%s%s" % (len(caller), caller, key), digest_size=32).digest()


def _report(published: Published, columns: Columns, unkeyed: int) -> PublishReport:
    """Rows taken before come first, in their order; the others are placed partition by partition."""
    queue, known = published.queue, published.duplicates
    before: list[PublishedMessage] = []
    placed = list(published.placed)
    while len(before) < known:
        run = placed.pop(0)
        before += [message_of(queue, run.partition, _behind(run, row), True) for row in range(run.rows)]
    rest = columns if not known else columns.part(known, columns.count)
    return PublishReport(columns.count, known, before + (results_of(queue, rest, placed, unkeyed) if placed else []))


def _behind(run: Placed, row: int) -> int:
    return -1 if run.base_offset < 0 else run.base_offset + row


ROUTES = (
    Route(
        "POST",
        f"{API}/queues/{{queue}}/messages",
        publish,
        Right.LOGIN,
        "Messages",
        "Publish to a queue",
        "One message or many as JSON; a stream of lines of JSON (application/x-ndjson), whose answer says which lines "
        "were not taken, or with Accept: application/x-ndjson what became of each, a line for a line, while the stream "
        "goes on; or, with any other content type, the body as one message, with its key in Penstock-Key, "
        "headers in Penstock-Header-…, and Penstock-Partition and Penstock-Topic. An Idempotency-Key makes it safe to "
        "send a request again.",
        query=PublishQuery,
        body=PublishBody,
        body_types=("application/json", LINES, "application/octet-stream"),
        answers={200: PublishReport | LinesReport, 202: PublishReport, 207: LinesReport},
        line_answers={207: LineResult},
    ),
)
