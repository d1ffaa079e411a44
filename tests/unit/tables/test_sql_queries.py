"""Queries over queues of a directory: what they answer, what they read, what they say when they are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.live_tables import LiveTables

import penstock
from penstock.log.columns import Columns
from penstock.queues.properties import Envelope, pack
from penstock.tables.errors import Trimmed
from penstock.tables.sql.dataset import ReadRange
from penstock.tables.sql.errors import SqlFailed
from penstock.tables.sql.query import QueryOptions, asked
from penstock.tables.table import QueueTable, TableDirectory


@dataclass(frozen=True)
class Directory:
    path: Path

    def queues(self) -> list[str]:
        directory = TableDirectory(self.path)
        try:
            return directory.queues()
        finally:
            directory.close()

    def open_table(self, queue: str) -> QueueTable:
        return QueueTable.open(self.path, queue)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveTables]:
    """`orders` has 30 rows in each of two partitions, with values of JSON; `eu/orders` some that are no text."""
    live = LiveTables(tmp_path)
    for partition in range(2):
        log = live.create("orders", partition)
        for first in range(0, 30, 3):
            numbers = range(first, first + 3)
            texts = [b'{"total": %d, "name": "caf\xc3\xa9"}' % number for number in numbers]
            live.append(log, Columns.of(texts, keys=[b"k%d" % (number % 5) for number in numbers]))
    headers = pack(Envelope((("trace", "t1"), ("trace", "t2"))))
    live.append(live.create("eu/orders"), Columns.of([b"\xff\x00a", b"text"], properties=[headers, b""]))
    yield live
    live.lock.release()


def answer(live: LiveTables, query: str, options: QueryOptions | None = None) -> list[tuple[object, ...]]:
    with asked(Directory(live.root), query, options) as found:
        return list(found.rows())


def read_for(live: LiveTables, query: str) -> list[ReadRange]:
    with asked(Directory(live.root), query) as found:
        list(found.rows())
        return found.read_ranges["orders"]


def test_values_are_used_as_json(live: LiveTables) -> None:
    query = "select key, sum((value::json->>'total')::int) from orders group by key order by key"
    assert answer(live, query) == [(f"k{key}", 2 * sum(range(key, 30, 5))) for key in range(5)]
    assert answer(live, "select distinct value::json->>'name' from orders") == [("café",)]


def test_names_with_other_characters_are_quoted_and_queues_are_joined(live: LiveTables) -> None:
    query = """select count(*) from orders o join "eu/orders" e using ("offset")"""
    assert answer(live, query) == [(4,)]
    assert answer(live, "show tables") == [("eu/orders",), ("orders",)]


def test_bytes_that_are_no_text_are_escaped_or_given_as_they_are(live: LiveTables) -> None:
    query = """select value from "eu/orders" order by "offset" """
    assert answer(live, query) == [("\\xff\x00a",), ("text",)]
    assert answer(live, query, QueryOptions(as_bytes=True)) == [(b"\xff\x00a",), (b"text",)]


def test_headers_are_looked_up_by_name(live: LiveTables) -> None:
    query = """select header(headers, 'trace'), len(headers) from "eu/orders" order by "offset" """
    assert answer(live, query) == [("t1", 2), (None, 0)]
    assert answer(live, query, QueryOptions(as_bytes=True)) == [(b"t1", 2), (None, 0)]


def test_conditions_on_the_place_of_rows_become_ranges_that_are_read(live: LiveTables) -> None:
    assert read_for(live, """select value from orders where partition = 1 and "offset" between 7 and 11""") == [
        ReadRange(1, 7, 12)
    ]
    assert read_for(live, """select value from orders where partition in (0, 7) and "offset" in (4, 9)""") == [
        ReadRange(0, 4, 10)
    ]
    assert read_for(live, "select value from orders where timestamp < '2000-01-01'") == []


def test_a_range_of_times_is_a_range_of_offsets(live: LiveTables) -> None:
    [(since, until)] = answer(
        live, """select min(timestamp), max(timestamp) from orders where partition = 0 and "offset" in (9, 20)"""
    )
    assert isinstance(since, datetime) and isinstance(until, datetime)
    times = f"timestamp >= '{since.astimezone(UTC)}' and timestamp <= '{until.astimezone(UTC)}'"
    assert read_for(live, f"select value from orders where {times}") == [ReadRange(0, 9, 21)]
    assert answer(live, f"select count(*) from orders where {times}") == [(12,)]


def test_filters_on_values_hold_beside_those_on_places(live: LiveTables) -> None:
    query = """select "offset" from orders where partition = 0 and "offset" > 5 and key = 'k1' order by 1"""
    assert answer(live, query) == [(number,) for number in (6, 11, 16, 21, 26)]


def test_a_queue_ends_where_it_was_first_looked_at_however_often_it_is_read(live: LiveTables) -> None:
    """The table behind it is asked once: two scans of a join see the same rows."""
    query = "select (select count(*) from orders), (select count(*) from orders where key is not null)"
    assert answer(live, query) == [(60, 60)]


def test_what_retention_dropped_meanwhile_is_an_error_that_names_it(live: LiveTables) -> None:
    class Trimming(Directory):
        def open_table(self, queue: str) -> QueueTable:
            table = super().open_table(queue)
            places = table.partitions()
            table.partitions = lambda: places  # type: ignore[method-assign]  # as if they were looked at before
            live.trim(log, 20)
            return table

    log = live.create("short")
    live.fill(log, 10)
    with pytest.raises(Trimmed, match="are gone"), asked(Trimming(live.root), "select value from short") as found:
        list(found.rows())


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * from ordrs", "no queue 'ordrs': did you mean orders?"),
        ("select * from nothing_like_it", "no queue 'nothing_like_it': there are \"eu/orders\", orders"),
        ("select offset from orders", 'as a column it is written "offset"'),
        ("selec 1", 'syntax error at or near "selec"'),
        ("select totl from orders", '"totl" not found'),
        ("select value::int from orders", "Could not convert"),
    ],
)
def test_what_is_wrong_with_a_query_is_said_plainly(live: LiveTables, query: str, said: str) -> None:
    with pytest.raises(SqlFailed) as raised:
        answer(live, query)
    assert said in str(raised.value)
    assert "LINE 1" not in str(raised.value)


def test_queues_that_sql_cannot_tell_apart_are_not_mistaken_for_each_other(live: LiveTables) -> None:
    live.fill(live.create("Orders"), 1)
    with pytest.raises(SqlFailed, match="Orders and orders differ by capital letters"):
        answer(live, "select count(*) from orders")


@pytest.fixture
def many(tmp_path: Path) -> Directory:
    """300,000 rows of 100 bytes."""
    with penstock.open(tmp_path / "many") as database:
        database.declare("many", partitions=1, limits={"max_queue_depth": 1_000_000})
        for _ in range(10):
            database.put_many("many", [b"%0100d" % number for number in range(30_000)])
    return Directory(tmp_path / "many")


def test_rows_come_before_all_of_them_are_read(many: Directory) -> None:
    read: list[int] = []

    class Watched(QueueTable):
        def read(self, *args: Any, **kwargs: Any) -> Any:
            for batch in super().read(*args, **kwargs):
                read.append(batch.num_rows)
                yield batch

    class Watching(Directory):
        def open_table(self, queue: str) -> QueueTable:
            return Watched(TableDirectory(self.path), queue, "default")

    with asked(Watching(many.path), "select value from many") as found:
        assert next(found.rows()) == (f"{0:0100d}",)
        assert sum(read) < 300_000


def test_memory_is_bounded_and_an_answer_that_needs_more_says_so(many: Directory) -> None:
    query = "select list(value) from many"
    with (
        pytest.raises(SqlFailed, match="--memory"),
        asked(many, query, QueryOptions(memory_bytes=20 << 20)) as found,
    ):
        list(found.rows())


def test_a_table_of_python_is_no_table_of_a_query(live: LiveTables) -> None:
    secrets = {"a": 1}
    with pytest.raises(SqlFailed, match="no queue 'secrets'"):
        answer(live, "select * from secrets")
    assert secrets
