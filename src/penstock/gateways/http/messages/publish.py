"""Publishing to a queue: one message or many, as JSON, as lines of JSON, or as the body itself."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import UNSET

from penstock.broker.publish.joint import Row
from penstock.broker.publish.joint import columns_of as rows_as_columns
from penstock.broker.publish.request import ProducerCall, Published
from penstock.broker.queues.queue import Queue
from penstock.codecs.http.messages import OutgoingMessage, Producer, PublishBody, PublishReport
from penstock.core.queue_paths import queue_topic
from penstock.gateways.http.messages.bodies import columns_of, plain_columns, raw_message, refuse_both, row_of
from penstock.gateways.http.messages.publish_lines import LINES, LineResult, LinesReport, answer_lines, publish_lines
from penstock.gateways.http.messages.published import put, report, report_of_one
from penstock.gateways.http.server.exchange import Exchange, Query, decoded
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import Reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.log.columns import Columns
from penstock.log.upkeep.faults import Telling

logger = logging.getLogger("penstock.http")
_telling = Telling(logger)

_MAX_IDEMPOTENCY_KEY_BYTES = 200


class PublishQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    acks: Literal["none", "leader", "all"] = "all"
    """`none` answers before the messages are on disk"""


class Wanted(NamedTuple):
    """What a request asks to be stored."""

    rows: Columns | Row
    """a row where it is the only one"""
    partition: int | None
    said: Producer | None = None

    @property
    def columns(self) -> Columns:
        return rows_as_columns((self.rows,)) if isinstance(self.rows, Row) else self.rows


async def publish(exchange: Exchange) -> Reply | None:
    name, routes, content_type = exchange.queue_name, exchange.ports.broker.publishing.routes, exchange.content_type
    exchange.require_publish(queue_topic(name))
    queue = exchange.ports.broker.declaring.wanted(name, {"namespace": exchange.namespace})
    acks = exchange.query(PublishQuery).acks if exchange.scope["query_string"] else "all"
    if content_type == LINES:
        is_answered = LINES.encode() in (exchange.header(b"accept") or b"")
        return await (answer_lines if is_answered else publish_lines)(exchange, queue)
    rows, partition, said = wanted = _wanted(exchange, content_type, await exchange.body())
    count = 1 if isinstance(rows, Row) else rows.count
    exchange.take_rate(count)
    exchange.state.counters.received += count
    producer, made = _producer(exchange, said), list[Queue]()
    if queue.is_unmade:
        queue = await routes.made(queue, [wanted.columns], partition, producer, made)
    if isinstance(rows, Row) and producer is None and acks != "none":
        joint, publisher = exchange.ports.broker.publishing.joint, exchange.connection.publisher
        placed = await joint.put_and_wait(queue, rows, publisher, partition)
        return Reply(200, report_of_one(queue, placed, is_created=bool(made)))
    columns, is_waited = wanted.columns, acks != "none" or producer is not None
    if is_waited:
        published = await put(exchange, queue, columns, partition, producer)
    else:
        published = await _put_unwaited(exchange, queue, columns, partition)
    unkeyed = exchange.connection.publisher.partition(queue)
    return Reply(200 if is_waited else 202, report(published, columns, unkeyed, is_created=bool(made)))


def _wanted(exchange: Exchange, content_type: str, raw: bytes | bytearray) -> Wanted:
    said = None
    messages: Sequence[OutgoingMessage]
    if content_type != "application/json":
        messages = [raw_message(exchange.scope["headers"], raw)]
    elif (columns := plain_columns(raw)) is not None:
        return Wanted(columns, None)
    else:
        body = decoded(raw, PublishBody)
        messages, said = _messages(body), body.producer
    if len(messages) != 1:
        return Wanted(columns_of(messages), _partition(messages), said)
    return Wanted(row_of(messages[0]), messages[0].partition, said)


async def _put_unwaited(exchange: Exchange, queue: Queue, columns: Columns, partition: int | None) -> Published:
    staged = exchange.ports.broker.publishing.put_now(queue, columns, exchange.connection.publisher, partition)
    if staged is None:
        return await put(exchange, queue, columns, partition)
    placed, committed = staged
    committed.add_done_callback(_note_loss)
    return Published(queue, placed)


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
