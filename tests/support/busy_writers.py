"""Writers at work on a queue of a real server, which may die under them, and the books that they keep."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from tests.support.mortal_server import MortalServer
from tests.support.whole_rows import whole_value

import penstock
from penstock.client.errors import ConnectionLost, Refused
from penstock.client.flight import FlightClient
from penstock.client.flight.values import StagedRange
from penstock.client.http.options import Retries

QUEUE = "events"
NEVER_COMMITTED = "never"
_ROWS, _PAUSE_S = 20, 0.005


@dataclass
class Book:
    """What one writer sent so that it may be there, and what of it was acknowledged: it must be. Other threads copy the
    sets before they look."""

    writer: str
    sent: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Turn:
    """What a writer has for one turn."""

    book: Book
    number: int
    http: penstock.Client
    flight: FlightClient
    over: threading.Event

    @property
    def numbers(self) -> range:
        return range(self.number * _ROWS, (self.number + 1) * _ROWS)


def _publish_one(turn: Turn) -> None:
    turn.book.sent.add(turn.number)
    turn.http.publish(QUEUE, whole_value(turn.book.writer, turn.number), f"key-{turn.number % 17}")
    turn.book.acknowledged.add(turn.number)


def _append_some(turn: Turn) -> None:
    turn.book.sent.update(turn.numbers)
    turn.flight.append(QUEUE, _batch(turn.book.writer, turn.numbers))
    turn.book.acknowledged.update(turn.numbers)


def _stage_and_commit(turn: Turn) -> None:
    """In two stages, which become messages together; said again until it is answered."""
    ranges = [*_staged(turn, turn.book.writer, turn.numbers[:7]), *_staged(turn, turn.book.writer, turn.numbers[7:])]
    turn.book.sent.update(turn.numbers)
    while not turn.over.wait(_PAUSE_S):
        try:
            turn.flight.commit("busy", turn.number, ranges)
        except ConnectionLost:
            continue
        turn.book.acknowledged.update(turn.numbers)
        return


def _stage_and_leave(turn: Turn) -> None:
    """Every second time it is at least said that nothing will come of it."""
    ranges = _staged(turn, NEVER_COMMITTED, turn.numbers)
    if turn.number % 2:
        turn.flight.abandon(ranges)


def _staged(turn: Turn, writer: str, numbers: range) -> list[StagedRange]:
    with turn.flight.stager(QUEUE, writer=writer) as stager:
        stager.stage(_batch(writer, numbers))
    return list(stager.ranges)


def _batch(writer: str, numbers: range) -> pa.RecordBatch:
    keys = [f"key-{number % 17}" for number in numbers]
    return pa.record_batch({"key": keys, "value": [whole_value(writer, number) for number in numbers]})


_WRITERS: dict[str, Callable[[Turn], None]] = {
    "single-0": _publish_one,
    "single-1": _publish_one,
    "several": _append_some,
    "staged": _stage_and_commit,
    NEVER_COMMITTED: _stage_and_leave,
}


@contextmanager
def busy_writers(server: MortalServer) -> Iterator[list[Book]]:
    """One thread each, until the body ends; what fails while the server is away is not tried again."""
    over, failures, books = threading.Event(), list[Exception](), [Book(name) for name in _WRITERS]
    threads = [threading.Thread(target=_write, args=(server, book, over, failures)) for book in books]
    for thread in threads:
        thread.start()
    try:
        yield books
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def _write(server: MortalServer, book: Book, over: threading.Event, failures: list[Exception]) -> None:
    number = 0
    with ExitStack() as stack:
        http = stack.enter_context(penstock.Client(server.http_url, retries=Retries(attempts=0)))
        flight = stack.enter_context(FlightClient(server.flight_url))
        while not over.wait(_PAUSE_S):
            try:
                _WRITERS[book.writer](Turn(book, number, http, flight, over))
            except ConnectionLost:
                pass  # that is what is tried: it may have been stored or not
            except Refused as refused:
                if not refused.is_passing:
                    failures.append(refused)
                    return
            number += 1
