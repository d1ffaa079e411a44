"""Programs through the embedded API: a thread for each connection, and transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.judge import layout
from tests.judge import reference as said
from tests.judge.doors import Held
from tests.judge.orders import Attempt, found_order
from tests.judge.reference import Group, Reference, Sent
from tests.judge.requests import (
    Door,
    Message,
    Program,
    Publish,
    Put,
    Receive,
    Request,
    Settle,
    Transaction,
    Turn,
    shown,
)
from tests.judge.running import AUTO, Unexplained
from tests.judge.seen import Place, Seen, Space, adopt
from tests.judge.words import Wire, named, unnamed

import penstock
from penstock.core.errors import NoSuchQueue, PenstockError
from penstock.embedded.consumer import Consumer
from penstock.embedded.database import Database
from penstock.embedded.message import Message as Delivered

_runs = count(1)
_PATIENCE_S = 20.0


@dataclass
class ThreadConnection:
    """Calls of one thread, one after the other."""

    name: str
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    door: Door = field(default_factory=lambda: Door("embedded"))
    answers: dict[int, Wire] = field(default_factory=dict)
    got: dict[int, list[Held]] = field(default_factory=dict)
    is_ended: bool = False
    delivered: list[Sent] = field(default_factory=list)
    settles_deliveries: bool = True
    ends_on_refusal: bool = False
    has_headers: bool = True

    def fitting(self, request: Request) -> Request | None:
        match request:
            case Publish():
                return request._replace(message=_fitting(request.message), partition=None, producer=None, retain=False)
            case Put():
                return request._replace(messages=tuple(map(_fitting, request.messages)), producer=None)
            case Transaction():
                puts = tuple(put._replace(messages=tuple(map(_fitting, put.messages))) for put in request.puts)
                return request._replace(puts=puts)
            case Receive() | Settle():
                return request
        return None

    def as_stored(self, request: Request) -> Request:
        return request

    def told(self, code: str, request: Request) -> Wire | None:
        # Topics of the broker's own feed no queue, and that is all that a publish here does.
        return (said.OK if code.startswith(said.OK) or code == said.RESERVED else code,)


def _fitting(message: Message) -> Message:
    """A header of each name."""
    return message._replace(headers=tuple(dict(message.headers).items()))


def judged_database(place: Path, auto_create: bool) -> Database:
    return penstock.open(place, auto_create=auto_create)


def judge_embedded(database: Database, program: Program) -> None:
    """Unexplained, with the program, if the true broker did what the reference would not."""
    run = _Run(database, program)
    try:
        for number, turn in enumerate(program.turns):
            run.turn(number, turn)
    finally:
        run.close()


class _Run:
    def __init__(self, database: Database, program: Program) -> None:
        self._database, self._program, self._prefix = database, program, f"x{next(_runs)}"
        self._reference = Reference(layout.PRINCIPALS, layout.QUEUES, program.auto_create)
        self._connections = [ThreadConnection(f"{self._prefix}t{place}") for place in range(len(program.doors))]
        self._consumers: dict[tuple[str, str], Consumer] = {}
        self._held: list[Held] = []
        self._messages: dict[Held, Delivered] = {}
        for facts in layout.QUEUES:
            self._declare(facts)
        for queue, group in layout.GROUPS:
            self._consumers[queue, group] = database.consume(self._named(queue), group)
            self._reference.queues[queue].groups[group] = Group(0)

    def _declare(self, facts: layout.QueueFacts) -> None:
        self._database.declare(
            self._named(facts.name),
            partitions=facts.partitions,
            topics=[self._named(topic) for topic in facts.topics],
            limits={"max_message_size": facts.max_bytes, "max_queue_depth": facts.max_depth or 100_000},
            retry_policy={"max_retries": facts.max_retries},
        )

    def _named(self, text: str) -> str:
        return named(text, self._prefix)

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        for connection in self._connections:
            connection.thread.shutdown()

    def turn(self, number: int, turn: Turn) -> None:
        attempts = self._attempts(turn)
        under_way: list[Future[None]] = []
        for attempt in attempts:
            under_way.append(self._connections[self._place(attempt)].thread.submit(self._do, attempt))
            if turn.split == "packets":
                under_way[-1].result(_PATIENCE_S)
        for future in under_way:
            future.result(_PATIENCE_S)
        attempts = [each._replace(got=tuple(each.connection.got.get(each.number, ()))) for each in attempts]
        seen, old = self._seen(), self._reference.row_counts()
        found, complaint = found_order({"default": self._reference}, attempts, seen)
        if found is None:
            raise Unexplained(f"turn {number}: {complaint}\njudge_embedded(database, {shown(self._program)})")
        self._reference = found["default"]
        adopt(self._reference, seen.spaces["default"], old)
        self._held += [each for attempt in attempts for each in attempt.got]
        for connection in self._connections:
            connection.answers.clear()
            connection.got.clear()

    def _place(self, attempt: Attempt) -> int:
        return [each.name for each in self._connections].index(attempt.publisher)

    def _attempts(self, turn: Turn) -> list[Attempt]:
        found: list[Attempt] = []
        for number, (place, asked) in enumerate(turn.requests):
            connection = self._connections[place % len(self._connections)]
            request = connection.fitting(asked)
            picks = request.picks if isinstance(request, Transaction) else ()
            picks = (request.pick,) if isinstance(request, Settle) else picks
            held = tuple(dict.fromkeys(self._held[pick % len(self._held)] for pick in picks)) if self._held else ()
            if request is not None and not (isinstance(request, Settle) and not held):
                found.append(Attempt(number, connection, connection.name, request, held))
        return found

    # Calls

    def _do(self, attempt: Attempt) -> None:
        connection = attempt.connection
        try:
            self._call(attempt)
            connection.answers[attempt.number] = (said.OK,)
        except PenstockError as error:
            code = said.STALE if error.code.value == "stale-settlement" else error.code.value
            connection.answers[attempt.number] = (code,)

    def _call(self, attempt: Attempt) -> None:
        database = self._database
        match attempt.request:
            case Publish(topic, message):
                database.publish(self._named(topic), message.value, message.key, dict(message.headers) or None)
            case Put(queue, [message], partition):
                headers = dict(message.headers) or None
                database.put(self._named(queue), message.value, message.key, headers, partition=partition)
            case Put():
                self._put_many(attempt.request)
            case Transaction():
                with database.transaction() as transaction:
                    for put in attempt.request.puts:
                        for message in put.messages:
                            headers = dict(message.headers) or None
                            transaction.put(self._named(put.queue), message.value, message.key, headers)
                    for held in attempt.held:
                        transaction.ack(self._messages[held])
            case Settle(verb):
                delivered = self._messages[attempt.held[0]]
                calls: dict[str, Callable[[], None]] = {
                    "ack": delivered.ack,
                    "nack": lambda: delivered.retry(0),
                    "reject": delivered.dead_letter,
                }
                calls[verb]()
            case Receive():
                self._receive(attempt, attempt.request)

    def _put_many(self, put: Put) -> None:
        values, headers = [each.value for each in put.messages], [dict(each.headers) for each in put.messages]
        keys = [each.key or "" for each in put.messages] if any(each.key for each in put.messages) else None
        self._database.put_many(self._named(put.queue), values, keys, headers, partition=put.partition)

    def _receive(self, attempt: Attempt, request: Receive) -> None:
        """Alone in its turn: so many as the reference has for it."""
        place = request.queue, request.group
        if place not in self._consumers:
            self._consumers[place] = self._database.consume(self._named(request.queue), request.group)
        free = self._reference.free(request.queue, request.group)
        taken: list[Delivered] = []
        while len(taken) < min(request.most, free):
            more = self._consumers[place].get_many(min(request.most, free) - len(taken), _PATIENCE_S)
            assert more, f"{place} has {free} messages, and none came behind {taken}"
            taken += more
        for message in taken:
            held = Held(*place, message.value, message.delivery_count, "", message.id)
            self._messages[held] = message
            attempt.connection.got.setdefault(attempt.number, []).append(held)

    # What there is

    def _seen(self) -> Seen:
        letters = [layout.DEAD + queue for queue, _ in layout.GROUPS]
        names = [*dict.fromkeys([*self._reference.queues, *AUTO, *letters])]
        rows = {name: self._places(name) for name in names}
        there = {name for name in names if rows[name] and not name.startswith(layout.DEAD)}
        published = {name: self._database.describe(self._named(name)).published for name in there}
        return Seen({"default": Space(rows, published)})

    def _places(self, name: str) -> Sequence[Place]:
        try:
            stored = list(self._database.browse(self._named(name)))
        except NoSuchQueue:
            return []
        stored.sort(key=lambda each: (each.partition, each.offset))
        return [
            Place(
                each.partition,
                each.value,
                each.key.decode() if each.key else None,
                None if each.topic is None else unnamed(each.topic, self._prefix),
                each.envelope.headers,
            )
            for each in stored
        ]
