from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from tests.support.live_tables import written

from penstock.core.errors import Closed, InvalidArgument
from penstock.gateways.flight.commands import Command, Ticket, command_of_path, parse_command, parse_ticket, time_ms
from penstock.gateways.flight.streams import Budget, Readers, Streams
from penstock.log.columns import Columns


def test_a_command_names_a_queue_and_what_of_it() -> None:
    found = parse_command(b'{"queue": "orders", "partition": 3, "start_time": 5, "columns": ["key"]}')
    assert found == Command("orders", partition=3, start_time=5, columns=("key",))
    assert command_of_path([b"shop/orders", b"3"]) == Command("shop/orders", partition=3)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"queue": ""},
        {"queue": "q", "partitoin": 1},
        {"queue": "q", "partition": -1},
        {"queue": "q", "start_offset": 1 << 64},
        {"queue": "q", "end_offset": 1, "end_time": 1},
        {"queue": "q" * 1000},
        ["queue"],
    ],
)
def test_what_is_no_command_is_refused_with_an_example(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match="a command looks like"):
        parse_command(json.dumps(wrong).encode())


@pytest.mark.parametrize("path", [[], [b""], [b"a", b"b"], [b"a", b"-1"], [b"a", b"1", b"2"], [b"\xff"]])
def test_what_is_no_path_is_refused(path: list[bytes]) -> None:
    with pytest.raises(InvalidArgument, match="write it like orders"):
        command_of_path(path)


def test_a_ticket_of_bytes_is_refused() -> None:
    assert parse_ticket(b'{"queue":"q","namespace":"d","partition":0,"start":0,"stop":1}') == Ticket("q", 0, 0, 1, "d")
    for wrong in (b"", b"\xff\xfe", b"{}", b" " * (65 << 10)):
        with pytest.raises(InvalidArgument, match="take tickets from GetFlightInfo"):
            parse_ticket(wrong)


def test_times_are_iso_text_or_milliseconds() -> None:
    assert time_ms("1970-01-01T00:00:01Z") == time_ms("1970-01-01T01:00:01+01:00") == time_ms("1970-01-01T00:00:01")
    assert (time_ms("1970-01-01T00:00:01Z"), time_ms(7)) == (1000, 7)
    with pytest.raises(InvalidArgument, match="is not a time"):
        time_ms("yesterday")


def test_streams_are_bounded_for_each_client_and_for_all() -> None:
    streams = Streams(limit=3, limit_per_client=2)
    with streams.one("ann"), streams.one("ann"):
        with pytest.raises(Closed, match="read these first"), streams.one("ann"):
            pass
        with streams.one("bob"), pytest.raises(Closed, match="max_streams"), streams.one("eve"):
            pass
    with streams.one("eve"):
        assert dict(streams._open) == {"eve": 1}


def test_a_reader_serves_one_stream_at_a_time_and_then_the_next(tmp_path: Path) -> None:
    written(tmp_path, "orders", [Columns.of([b"v"])])
    readers = Readers(tmp_path)
    with readers.one() as first, readers.one() as second:
        assert first is not second
    found = []

    def use() -> None:
        with readers.one() as reader:
            found.append((reader in (first, second), reader.queues()))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert found == [(True, ["orders"])]


def test_a_budget_is_waited_for_and_one_that_is_too_large_goes_alone() -> None:
    budget, order = Budget(10), list[str]()

    def take() -> None:
        with budget.taken(50):
            order.append("large")

    with budget.taken(4), budget.taken(6):
        waiting = threading.Thread(target=take)
        waiting.start()
        order.append("small")
    waiting.join()
    assert order == ["small", "large"]
