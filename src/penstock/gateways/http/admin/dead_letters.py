"""Dead letters: looked at, sent again, dropped."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.broker.letters.letters import (
    Letter,
    Selection,
    dead_letter_queue_of,
    dead_letter_queues,
    letters,
    waiting,
)
from penstock.broker.letters.redrive import RedriveOptions, Report, drop, redrive
from penstock.broker.queues.queue import Queue
from penstock.codecs.http.dead_letters import (
    DeadLetterList,
    DeadLetterMessage,
    DeadLetterQueue,
    DeadLetterQueues,
    DropReport,
    RetryReport,
)
from penstock.codecs.http.shapes import GroupName, QueueName
from penstock.core.errors import NotAuthorised
from penstock.gateways.http.messages.message_rows import ANSWER_BYTES, message_of
from penstock.gateways.http.server.exchange import Exchange, Query
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import NO_CONTENT, Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.queues.deadletter import Reason
from penstock.queues.names import parse_group_name

_TAG = "Dead letters"
_PATH = f"{API}/queues/{{queue}}/dlq"
_MOST = 1000


class DeadLetterQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST)] = 100
    group: GroupName | None = None
    """only those that this group gave up on"""
    reason: Reason | None = None
    source: str | None = None
    """only those of this queue"""
    id: str | None = None
    """only this one: its own id, or that of the message it was"""


class Chosen(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Selects dead letters for which all given conditions hold; without conditions, all of them."""

    ids: list[str] = []
    group: GroupName | None = None
    reason: Reason | None = None
    source: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    dry_run: bool = False
    """say how many there are, and change nothing"""


class Retry(Chosen, frozen=True, forbid_unknown_fields=True, kw_only=True):
    to: QueueName | None = None
    """another queue than the one they came from"""
    to_all_groups: bool = False
    """else only the group that gave up on a message gets it"""
    rate: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """letters a second"""


async def list_queues(exchange: Exchange) -> Reply:
    found = [queue for queue in dead_letter_queues(exchange.ports.broker) if queue.namespace == exchange.namespace]
    return json_reply(DeadLetterQueues([DeadLetterQueue(queue.name, waiting(queue)) for queue in found]))


async def list_letters(exchange: Exchange) -> Reply:
    """To whom messages of the queue may be shown: who publishes to it may know that it is there, no more."""
    if not exchange.permissions.may_browse(exchange.queue_name):
        raise NotAuthorised(f"{exchange.identity.name} may not look at messages of queue {exchange.queue_name!r}")
    query = exchange.query(DeadLetterQuery)
    chosen = _selection([] if query.id is None else [query.id], query.group, query.reason, query.source)
    found = _letters_of(exchange)
    if found is None:
        return json_reply(DeadLetterList(None, 0, []))
    items: list[DeadLetterMessage] = []
    size = 0
    async for letter in letters(exchange.ports.broker, found, chosen, query.limit):
        items.append(_told(found, letter))
        size += len(letter.message.row.value)
        if size >= ANSWER_BYTES:
            break
    return json_reply(DeadLetterList(found.name, waiting(found), items))


async def retry_one(exchange: Exchange) -> Reply:
    report = await _redriven(exchange, Retry(ids=[exchange.parameters["id"]]))
    if report.missing:
        raise _not_there(exchange)
    if report.left:
        detail = f"the dead letter stays where it is: {', '.join(report.left)}"
        raise Refusal(409, "not-redriven", detail)
    return json_reply(report)


async def retry_some(exchange: Exchange) -> Reply:
    return json_reply(await _redriven(exchange, await exchange.read(Retry)))


async def drop_some(exchange: Exchange) -> Reply:
    wanted, found = await exchange.read(Chosen), _letters_of(exchange)
    chosen = _chosen(wanted)
    if found is None:
        return json_reply(DropReport(0, list(wanted.ids), wanted.dry_run))
    if wanted.dry_run:
        return json_reply(DropReport(*await _counted(exchange, found, chosen, wanted.limit), True))
    report = await drop(exchange.ports.broker, found, chosen, wanted.limit)
    return json_reply(DropReport(report.done, sorted(report.missing)))


async def drop_one(exchange: Exchange) -> Reply:
    found = _letters_of(exchange)
    chosen = _selection([exchange.parameters["id"]])
    if found is None or not (await drop(exchange.ports.broker, found, chosen)).done:
        raise _not_there(exchange)
    return NO_CONTENT


async def _redriven(exchange: Exchange, wanted: Retry) -> RetryReport:
    broker, found = exchange.ports.broker, _letters_of(exchange)
    chosen = _chosen(wanted)
    target = None if wanted.to is None else broker.queue(wanted.to, exchange.namespace)
    if found is None:
        return RetryReport(0, {}, list(wanted.ids), wanted.dry_run)
    if wanted.dry_run:
        count, missing = await _counted(exchange, found, chosen, wanted.limit)
        return RetryReport(count, {}, missing, True)
    options = RedriveOptions(
        selection=chosen,
        to=target,
        is_to_all_groups=wanted.to_all_groups,
        rate=wanted.rate,
        limit=wanted.limit,
    )
    return _report(await redrive(broker, found, options))


async def _counted(exchange: Exchange, queue: Queue, chosen: Selection, limit: int | None) -> tuple[int, list[str]]:
    """How many wait of those that are meant, and the ids of which none does."""
    count, missing = 0, set(chosen.ids)
    async for letter in letters(exchange.ports.broker, queue, chosen, limit):
        count += 1
        missing -= letter.ids
    return count, sorted(missing)


def _letters_of(exchange: Exchange) -> Queue | None:
    return dead_letter_queue_of(exchange.ports.broker, exchange.queue_name, exchange.namespace)


def _chosen(wanted: Chosen) -> Selection:
    return _selection(wanted.ids, wanted.group, wanted.reason, wanted.source)


def _selection(
    ids: list[str], group: str | None = None, reason: Reason | None = None, source: str | None = None
) -> Selection:
    if group is not None:
        parse_group_name(group)
    reasons = frozenset[Reason](() if reason is None else (reason,))
    return Selection(frozenset(ids), _given(group), reasons, _given(source))


def _given(name: str | None) -> frozenset[str]:
    return frozenset(() if name is None else (name,))


def _told(queue: Queue, letter: Letter) -> DeadLetterMessage:
    row, partition, facts = letter.message.row, letter.message.partition, letter.facts
    message = message_of(queue.message_id_prefix(partition), queue.name, partition, row)
    if facts is None:
        return DeadLetterMessage(message)
    return DeadLetterMessage(
        message,
        source=str(facts.source),
        group=str(facts.group),
        reason=facts.reason.value,
        detail=facts.detail or None,
        deliveries=facts.delivery_count,
        failures=facts.failures,
        first_failed_ms=facts.first_failed_ms or None,
        moved_ms=facts.moved_ms,
    )


def _report(report: Report) -> RetryReport:
    return RetryReport(report.done, dict(report.left), sorted(report.missing))


def _not_there(exchange: Exchange) -> Refusal:
    detail = f"no dead letter {exchange.parameters['id']!r} is there: GET …/dlq lists them"
    return Refusal(404, "not-found", detail)


ROUTES = (
    Route(
        "GET", f"{API}/dlq", list_queues, Right.READ, _TAG, "List dead-letter queues", answers={200: DeadLetterQueues}
    ),
    Route(
        "POST",
        f"{_PATH}/drop",
        drop_some,
        Right.ADMIN,
        _TAG,
        "Drop dead letters",
        body=Chosen,
        answers={200: DropReport},
    ),
    Route(
        "GET",
        _PATH,
        list_letters,
        Right.LOGIN,
        _TAG,
        "List dead letters of a queue",
        query=DeadLetterQuery,
        answers={200: DeadLetterList},
    ),
    Route(
        "POST",
        f"{_PATH}/retry",
        retry_some,
        Right.ADMIN,
        _TAG,
        "Redrive dead letters",
        body=Retry,
        answers={200: RetryReport},
    ),
    Route(
        "POST",
        f"{_PATH}/{{id}}/retry",
        retry_one,
        Right.ADMIN,
        _TAG,
        "Redrive a dead letter",
        answers={200: RetryReport},
    ),
    Route("DELETE", f"{_PATH}/{{id}}", drop_one, Right.ADMIN, _TAG, "Drop a dead letter", answers={204: None}),
)
