"""Reading in batches, as Spark calls it, without a JVM."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, GreaterThanOrEqual, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from tests.support.amqp091 import TASK
from tests.support.live_tables import LiveTables
from tests.support.numbered import numbers_of, purge, put_numbers, until_declared, until_seen

import penstock
from penstock.core.errors import DirectoryFormat, InvalidArgument, NoSuchQueue
from penstock.embedded.database import Database
from penstock.log.columns import Columns
from penstock.spark.places import DataLost
from penstock.spark.sink_schema import check_sink_schema
from penstock.spark.source import PenstockSource
from penstock.tables.errors import NotRecovered


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with penstock.open(tmp_path / "data") as opened:
        opened.declare("orders", partitions=4)
        until_declared(opened, "orders")
        yield opened


def _source(database: Database, **options: str) -> PenstockSource:
    return PenstockSource({"path": str(database.directory), "queue": "orders", **options})


def _reader(database: Database, **options: str) -> DataSourceReader:
    source = _source(database, **options)
    return source.reader(source.schema())


def _batches(reader: DataSourceReader) -> list[pa.RecordBatch]:
    """As an executor reads them: what it gets was pickled."""
    return [batch for part in reader.partitions() for batch in _read(reader, part)]


def _read(reader: DataSourceReader, part: InputPartition) -> Iterator[pa.RecordBatch]:
    copy, task = pickle.loads(pickle.dumps((reader, part)))
    batches: Iterator[pa.RecordBatch] = copy.read(task)
    return batches


def _numbers(database: Database, filters: Sequence[Filter] = (), **options: str) -> list[int]:
    reader = _reader(database, **options)
    assert list(reader.pushFilters(list(filters))) == []
    return sorted(numbers_of(_batches(reader)))


def test_every_message_is_a_row_once(database: Database) -> None:
    put_numbers(database, "orders", range(25_000))
    batches = _batches(_reader(database))
    assert sorted(numbers_of(batches)) == list(range(25_000))
    assert {row["partition"] for batch in batches for row in batch.select(["partition"]).to_pylist()} == {0, 1, 2, 3}


def test_batches_have_the_types_that_spark_expects(database: Database) -> None:
    database.put("orders", b"1", b"k", {"colour": "red"})
    until_seen(database, "orders")
    source = _source(database, includeHeaders="true")
    schema = source.schema()
    (batch,) = _batches(source.reader(schema))
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    (row,) = batch.to_pylist()
    assert (row["key"], row["value"], row["queue"], row["offset"]) == (b"k", b"1", "orders", 0)
    assert row["headers"] == [{"key": "colour", "value": b"red"}]


def test_columns_are_picked_by_option_or_by_schema(database: Database) -> None:
    put_numbers(database, "orders", range(3))
    assert _batches(_reader(database, columns="offset,value"))[0].schema.names == ["offset", "value"]
    source = _source(database)
    schema = StructType([field for field in source.schema() if field.name in ("key", "value")])
    assert _batches(source.reader(schema))[0].schema.names == ["key", "value"]


def test_a_schema_with_another_type_is_refused(database: Database) -> None:
    with pytest.raises(InvalidArgument, match=r"column 'value' is binary, not string: .*cast"):
        _source(database).reader(StructType().add("value", "string"))


def test_offsets_and_partitions_are_pushed_into_the_ranges(database: Database) -> None:
    for partition in range(4):
        put_numbers(database, "orders", range(100 * partition, 100 * partition + 10), partition)
    assert _numbers(database, [EqualTo(("partition",), 2)]) == list(range(200, 210))
    late = [GreaterThanOrEqual(("offset",), 8), EqualTo(("queue",), "orders")]
    assert _numbers(database, late) == [8, 9, 108, 109, 208, 209, 308, 309]
    assert _numbers(database, [EqualTo(("queue",), "returns")]) == []


def test_times_are_pushed_into_the_ranges(database: Database) -> None:
    put_numbers(database, "orders", range(10))
    now = datetime.now(UTC)
    assert _numbers(database, [GreaterThanOrEqual(("timestamp",), now.replace(year=now.year + 1))]) == []
    assert _numbers(database, [GreaterThanOrEqual(("timestamp",), now.replace(year=now.year - 1))]) == list(range(10))


def test_offsets_of_the_options_bound_what_is_read(database: Database) -> None:
    put_numbers(database, "orders", range(100), partition=1)
    start, stop = '{"orders": {"1": 10}}', '{"orders": {"1": 20}}'
    assert _numbers(database, startingOffsets=start, endingOffsets=stop) == list(range(10, 20))
    assert _numbers(database, startingTimestamp="2100-01-01T00:00:00Z") == []
    assert _numbers(database, endingTimestamp="0") == []
    assert _numbers(database, startingOffsets="latest") == []


def test_an_end_in_time_is_given_partition_by_partition(database: Database) -> None:
    """Partitions that are not named are read whole."""
    for first, partition in ((0, 0), (10, 1), (20, 0)):
        put_numbers(database, "orders", range(first, first + 10), partition)
    rows = [row for batch in _batches(_reader(database)) for row in batch.to_pylist()]
    times = {int(row["value"]): round(row["timestamp"].timestamp() * 1000) for row in rows}
    never, middle, always = 0, times[20], 4_000_000_000_000
    early = [number for number in range(10) if times[number] < middle]
    for given, expected in (
        ({"0": middle}, [*early, *range(10, 20)]),
        ({"0": never, "1": never}, []),
        ({"1": never}, [*range(10), *range(20, 30)]),
        ({"0": always, "1": never, "2": never}, [*range(10), *range(20, 30)]),
    ):
        assert _numbers(database, endingOffsetsByTimestamp=json.dumps({"orders": given})) == expected
    with pytest.raises(InvalidArgument, match="partition 9 of queue 'orders', which is not read"):
        _numbers(database, endingOffsetsByTimestamp='{"orders": {"9": 1}}')


def test_large_partitions_are_split_and_small_ones_share_a_task(database: Database) -> None:
    put_numbers(database, "orders", range(4000))
    assert len(_reader(database).partitions()) == 1
    assert len(_reader(database, splitRows="1000", packRows="1000").partitions()) == 4
    assert len(_reader(database, minPartitions="16").partitions()) >= 16
    assert _numbers(database, minPartitions="16", splitRows="99") == list(range(4000))


def test_an_empty_queue_has_no_rows(database: Database) -> None:
    reader = _reader(database)
    assert _batches(reader) == []
    assert list(_read(reader, InputPartition(None))) == []


def test_a_queue_that_only_a_dead_brokers_journal_has_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    live = LiveTables(tmp_path)
    live.fill(live.create("orders"), 3)
    live.die()
    source = PenstockSource({"path": str(tmp_path), "queue": "orders"})
    with pytest.raises(NotRecovered, match="declared since is there again once a broker has started"):
        source.reader(source.schema()).partitions()
    live = LiveTables(tmp_path)
    live.close()
    assert len(source.reader(source.schema()).partitions()) == 1


def test_several_queues_and_patterns_are_read_together(database: Database) -> None:
    put_numbers(database, "orders", [1])
    put_numbers(database, "shop/returns", [2])
    put_numbers(database, "shop/claims", [3])
    assert _numbers(database, queue="orders, shop/claims") == [1, 3]
    assert _numbers(database, queue="shop/*") == [2, 3]
    assert _numbers(database, queue="none*") == []
    with pytest.raises(NoSuchQueue, match="nobody"):
        _reader(database, queue="nobody").partitions()


def test_dead_letters_come_along_when_asked(database: Database) -> None:
    put_numbers(database, "orders", [1])
    put_numbers(database, "$dlq/orders", [2])
    assert _numbers(database) == [1]
    assert _numbers(database, includeDeadLetters="true") == [1, 2]


def test_dead_letters_tell_whence_and_why(database: Database) -> None:
    put_numbers(database, "orders", [1], partition=2)
    with database.consume("orders", "workers") as consumer:
        next(iter(consumer)).dead_letter("no such customer")
    until_seen(database, "$dlq/orders")
    source = _source(database, includeDeadLetters="true")
    reader = source.reader(source.schema())
    rows = [row["deadLetter"] for batch in _batches(reader) for row in batch.to_pylist()]
    [letter] = [row for row in rows if row is not None]
    assert len(rows) == 2 and (letter["queue"], letter["partition"], letter["offset"]) == ("orders", 2, 0)
    assert (letter["reason"], letter["detail"], letter["group"]) == ("rejected", "no such customer", "workers")
    assert letter["deliveryCount"] == 1


def test_what_came_by_amqp_is_among_the_headers_and_as_it_came_where_it_is_asked_for(database: Database) -> None:
    database.put_many("orders", Columns.of([b"task"], native=[TASK.stored()]))
    until_seen(database, "orders")
    source = _source(database, columns="value,native,headers")
    schema = source.schema()
    check_sink_schema(schema)
    [row] = [row for batch in _batches(source.reader(schema)) for row in batch.to_pylist()]
    assert (row["value"], row["native"]) == (b"task", TASK.stored())
    assert {"key": "lang", "value": b"py"} in row["headers"]


def test_trimmed_offsets_are_an_error_or_skipped(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    put_numbers(database, "orders", range(10), partition=0)
    purge(database, "orders")
    put_numbers(database, "orders", range(10, 15), partition=0)
    start = '{"orders": {"0": 4}}'
    with pytest.raises(DataLost, match="6 offsets are gone: offsets 4 to 9 of partition 0 of queue 'orders'"):
        _numbers(database, startingOffsets=start)
    assert _numbers(database, startingOffsets=start, failOnDataLoss="false") == list(range(10, 15))
    assert "6 offsets are gone" in caplog.text


def test_a_trim_between_plan_and_read_is_noticed(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    put_numbers(database, "orders", range(10), partition=0)
    strict, lenient = _reader(database), _reader(database, failOnDataLoss="false")
    (task,) = strict.partitions()
    purge(database, "orders")
    put_numbers(database, "orders", range(10, 15), partition=0)
    with pytest.raises(DataLost, match="partition 0 of queue 'orders' are gone"):
        list(_read(strict, task))
    assert list(_read(lenient, task)) == []
    assert "10 offsets" in caplog.text


def test_a_path_without_a_data_directory_is_said(tmp_path: Path) -> None:
    source = PenstockSource({"path": str(tmp_path), "queue": "orders"})
    with pytest.raises(DirectoryFormat):
        source.reader(source.schema()).partitions()


def test_a_reader_is_not_taken_for_one_that_demands_pushdown(database: Database) -> None:
    """Spark fails queries of such readers while pushdown is off, which it is by default."""
    asked = _reader(database).pushFilters
    assert getattr(asked, "__func__", None) is DataSourceReader.pushFilters
