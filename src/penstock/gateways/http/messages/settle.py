"""Settling deliveries by their receipts: done, try again, give up, or more time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from penstock.broker.feed.held import Held
from penstock.broker.feed.settling import Settlement
from penstock.broker.queues.queue import Queue
from penstock.codecs.http.deliveries import AckBody, ExtendBody, NackBody, RejectBody, SettledReceipt, SettleReport
from penstock.codecs.http.spans import LONGEST_LEASE_S
from penstock.gateways.http.messages.receipts import ADVICE, Receipted
from penstock.gateways.http.server.durations import seconds_of
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route

Settle = Callable[[Held], Settlement]
B = TypeVar("B", bound=AckBody)


async def acked(exchange: Exchange, body: AckBody) -> SettleReport:
    return await _settle(exchange, body.receipts, exchange.ports.broker.settling.ack)


async def nacked(exchange: Exchange, body: NackBody) -> SettleReport:
    settling = exchange.ports.broker.settling
    delay_ms = None if body.delay is None else round(1000 * seconds_of(body.delay, "delay", LONGEST_LEASE_S))
    return await _settle(exchange, body.receipts, lambda held: settling.fail(held, delay_ms, body.reason))


async def rejected(exchange: Exchange, body: RejectBody) -> SettleReport:
    settling = exchange.ports.broker.settling
    return await _settle(exchange, body.receipts, lambda held: settling.reject(held, body.reason))


async def extended(exchange: Exchange, body: ExtendBody) -> SettleReport:
    broker = exchange.ports.broker
    until_ms = broker.now() + round(1000 * seconds_of(body.visibility, "visibility", LONGEST_LEASE_S))
    return await _settle(exchange, body.receipts, lambda held: broker.settling.extend(held, until_ms))


async def released(exchange: Exchange, body: AckBody) -> SettleReport:
    return await _settle(exchange, body.receipts, exchange.ports.broker.settling.release)


def _reply(report: SettleReport) -> Reply:
    """200 if all were, 207 if some were, 409 if none was."""
    return json_reply(report, 409 if not report.settled else 207 if report.stale else 200)


async def _settle(exchange: Exchange, receipts: Sequence[str], settle: Settle) -> SettleReport:
    wanted = list(dict.fromkeys(receipts))
    queue = _queue(exchange)
    found, statuses = exchange.state.receipts.find(wanted, exchange.namespace, queue)
    for each in found:
        exchange.require_consume(each.held.delivery.group.queue.name)
    settlements = [_settle_now(each, settle, statuses) for each in found]
    for settlement in settlements:
        await settlement
    results = [SettledReceipt(receipt, statuses[receipt]) for receipt in wanted]
    done = sum([result.status == "settled" for result in results])
    return SettleReport(done, len(results) - done, results, None if done == len(results) else _advice(results))


def _advice(results: Sequence[SettledReceipt]) -> str:
    counts = Counter(result.status for result in results if result.status != "settled")
    return "; ".join([f"{count} {status}: {ADVICE[status]}" for status, count in counts.items()])


def _settle_now(each: Receipted, settle: Settle, statuses: dict[str, str]) -> Settlement:
    """Adds the status of each receipt. Which are current is looked at in the turn in which they are settled."""
    current = set(each.held.current())
    statuses |= {receipt: "settled" if i in current else "stale" for i, receipt in enumerate(each.receipts)}
    return settle(each.held)


def _queue(exchange: Exchange) -> Queue | None:
    """That of the path, if it has one."""
    if "queue" not in exchange.parameters:
        return None
    exchange.require_consume(exchange.queue_name)
    return exchange.queue()


def _routes(
    verb: str, settled: Callable[[Exchange, B], Awaitable[SettleReport]], body: type[B], summary: str
) -> tuple[Route, Route]:
    async def handler(exchange: Exchange) -> Reply:
        return _reply(await settled(exchange, await exchange.read(body)))

    answers = {200: SettleReport, 207: SettleReport, 409: SettleReport}
    paths = f"{API}/messages/{verb}", f"{API}/queues/{{queue}}/{verb}"
    first, second = (
        Route("POST", path, handler, Right.LOGIN, "Messages", summary, body=body, answers=answers) for path in paths
    )
    return first, second


ROUTES = (
    *_routes("ack", acked, AckBody, "Acknowledge messages"),
    *_routes("nack", nacked, NackBody, "Negative acknowledge: deliver again later"),
    *_routes("reject", rejected, RejectBody, "Reject messages: move them to the dead-letter queue"),
    *_routes("extend", extended, ExtendBody, "Extend the visibility timeout"),
    *_routes("release", released, AckBody, "Return messages without counting a failure"),
)
