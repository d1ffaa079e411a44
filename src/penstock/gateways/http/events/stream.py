"""A queue over a WebSocket: a member of a group that gets messages as they come and settles them on the same way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Literal

import msgspec

from penstock.broker.feed.consumer import Consumer
from penstock.broker.feed.inbox import Inbox
from penstock.broker.queues.start import EARLIEST
from penstock.codecs.http.deliveries import AckBody, ExtendBody, NackBody, RejectBody, SettleReport
from penstock.codecs.http.messages import Message
from penstock.codecs.http.spans import Lease
from penstock.core.errors import Closed, NotAuthorised, PenstockError
from penstock.gateways.http.messages.partition_parts import parse_start
from penstock.gateways.http.messages.receive import messages_of
from penstock.gateways.http.messages.settle import acked, extended, nacked, rejected
from penstock.gateways.http.server.exchange import Disconnected, Exchange, Query, decoded
from penstock.gateways.http.server.problems import Problem, Refusal, problem_of
from penstock.gateways.http.server.reply import Reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, WEBSOCKET, Route
from penstock.gateways.http.server.sockets import GOING_AWAY, NORMAL, POLICY, WebSocketExchange

_MOST_UNSETTLED = 1000
# Made into JSON at a time; the rest of the prefetch waits in the log.
_AT_ONCE = 64
_LOOK_AGAIN_S = 15.0

_encode = msgspec.json.Encoder().encode


class StreamQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: str = "default"
    """made if it is not there"""
    prefetch: Annotated[int, msgspec.Meta(ge=1, le=_MOST_UNSETTLED)] = 16
    """so many messages may be unsettled"""
    encoding: Literal["auto", "base64"] = "auto"
    start: str = msgspec.field(name="from", default="earliest")
    """where a group begins that is made now"""


Receipts = Annotated[list[str], msgspec.Meta(min_length=1, max_length=_MOST_UNSETTLED)]


class SettleFrame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From the client: one of ack, nack, reject and extend, with receipts."""

    ack: Receipts | None = None
    nack: Receipts | None = None
    reject: Receipts | None = None
    extend: Receipts | None = None
    delay: Lease | None = None
    reason: str = ""
    visibility: Lease = 30


class ErrorFrame(msgspec.Struct, frozen=True):
    """To the client, where something it sent cannot be done; the stream goes on."""

    error: Problem


async def stream(exchange: Exchange) -> Reply | None:
    assert isinstance(exchange, WebSocketExchange)
    exchange.require_consume(exchange.queue_name)
    query, queue, broker = exchange.query(StreamQuery), exchange.queue(), exchange.ports.broker
    with exchange.state.streams.counted(exchange.options.max_streams):
        start = EARLIEST if query.start == "earliest" else parse_start(query.start)
        group = await broker.group(queue, query.group, start)
        await exchange.accept()
        member = broker.join(group, query.prefetch)
        inbox = broker.inbox(member)
        try:
            await _until_one_ends(_deliver(exchange, member, inbox, query), _settle(exchange), _end(exchange))
        except Disconnected:
            return None
        except (Closed, NotAuthorised) as error:
            await exchange.close(POLICY if isinstance(error, NotAuthorised) else NORMAL, str(error))
            return None
        finally:
            inbox.close()
        await exchange.close(GOING_AWAY, "the server is stopping")
    return None


async def _until_one_ends(*works: Coroutine[object, None, None]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _deliver(exchange: WebSocketExchange, member: Consumer, inbox: Inbox, query: StreamQuery) -> None:
    """As many as may be unsettled: who does not settle gets no more. Closed when the queue or the group is deleted."""
    queue, is_base64 = member.group.queue, query.encoding == "base64"
    suffix = exchange.state.receipts.suffix(member.group, member.number)
    while True:
        await inbox.receive(_AT_ONCE, _LOOK_AGAIN_S)
        exchange.require_consume(queue.name)
        for delivery in inbox.take_many(_AT_ONCE):
            for message in messages_of(queue, delivery, suffix, is_base64):
                await exchange.send_text(_encode(message).decode())


async def _settle(exchange: WebSocketExchange) -> None:
    while True:
        text = await exchange.receive_text()
        try:
            report: SettleReport | ErrorFrame = await _settled(exchange, text)
        except (PenstockError, Refusal) as error:
            report = ErrorFrame(problem_of(error, exchange.request_id))
        await exchange.send_text(_encode(report).decode())


async def _settled(exchange: WebSocketExchange, text: str) -> SettleReport:
    frame = decoded(text.encode(), SettleFrame)
    verbs: list[tuple[list[str] | None, Callable[[list[str]], Coroutine[object, None, SettleReport]]]] = [
        (frame.ack, lambda named: acked(exchange, AckBody(receipts=named))),
        (frame.nack, lambda named: nacked(exchange, NackBody(receipts=named, delay=frame.delay, reason=frame.reason))),
        (frame.reject, lambda named: rejected(exchange, RejectBody(receipts=named, reason=frame.reason))),
        (frame.extend, lambda named: extended(exchange, ExtendBody(receipts=named, visibility=frame.visibility))),
    ]
    said = [(receipts, verb) for receipts, verb in verbs if receipts is not None]
    if len(said) != 1:
        raise Refusal(400, "malformed-body", "a message has exactly one of ack, nack, reject and extend")
    [(receipts, verb)] = said
    return await verb(receipts)


async def _end(exchange: WebSocketExchange) -> None:
    await exchange.state.is_draining.wait()


ROUTES = (
    Route(
        WEBSOCKET,
        f"{API}/queues/{{queue}}/stream",
        stream,
        Right.LOGIN,
        "Messages",
        "Consume a queue over a WebSocket",
        "The server sends messages like those of `receive`, at most `prefetch` unsettled ones. The client sends "
        '{"ack": [receipts]}, {"nack": [receipts], "delay": "5s"}, {"reject": [receipts], "reason": "…"} or {"extend": '
        '[receipts], "visibility": "1m"}, and gets a report for each. Messages that are not settled when the '
        "connection closes are delivered again.",
        query=StreamQuery,
        answers={101: Message},
    ),
)
