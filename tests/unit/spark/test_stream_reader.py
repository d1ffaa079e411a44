"""A stream's positions, as Spark asks for them, without a JVM."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows
from tests.support.http_server import running_server
from tests.support.live_tables import LiveTables
from tests.support.numbered import numbers_of, purge, put_numbers, until_declared, until_end

import penstock
from penstock.client.http.client import Client
from penstock.core.errors import InvalidArgument, PenstockError
from penstock.embedded.database import Database
from penstock.log.offline.backup import create_backup
from penstock.log.offline.restore import restore_backup
from penstock.spark import stream
from penstock.spark.metrics import source_metrics
from penstock.spark.offsets import BEHIND, LOGS, OffsetsJson, PartitionId
from penstock.spark.options import parse_options
from penstock.spark.places import DataLost
from penstock.spark.progress import GroupProgress
from penstock.spark.reader import QueueReader
from penstock.spark.stream import QueueStreamReader

ALL = ReadAllAvailable()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with penstock.open(tmp_path / "data") as opened:
        opened.declare("orders", partitions=2)
        until_declared(opened, "orders")
        yield opened


def _reader(database: Database, **options: str) -> QueueStreamReader:
    given = {"path": str(database.directory), "queue": "orders", **options}
    return QueueStreamReader(parse_options(given, is_stream=True), ("value",))


def _batch(reader: QueueStreamReader, start: OffsetsJson, end: OffsetsJson) -> list[int]:
    return sorted(numbers_of(batch for task in reader.partitions(start, end) for batch in reader.read(task)))


def _offsets(written: OffsetsJson) -> OffsetsJson:
    """Without the logs that they are of, and without metrics."""
    return {queue: offsets for queue, offsets in written.items() if not queue.startswith("$")}


def _fill(database: Database, first: int = 0) -> None:
    put_numbers(database, "orders", range(first, first + 10), partition=0)
    put_numbers(database, "orders", range(first + 10, first + 40), partition=1)


def _create_anew(database: Database) -> None:
    """With more rows than it had, by which readers of the directory are known to see the new one."""
    database.delete("orders")
    database.declare("orders", partitions=2)
    _fill(database, 100)
    put_numbers(database, "orders", [140], partition=1)


def test_a_stream_reads_what_is_there_and_then_what_comes(database: Database) -> None:
    _fill(database)
    reader = _reader(database)
    start = reader.initialOffset()
    assert _offsets(start) == {"orders": {"0": 0, "1": 0}}
    end = reader.latestOffset(start, ALL)
    assert _offsets(reader.reportLatestOffset()) == _offsets(end) and _offsets(end) == {"orders": {"0": 10, "1": 30}}
    assert _batch(reader, start, end) == list(range(40))
    assert reader.latestOffset(end, ALL) == end and reader.partitions(end, end) == []
    put_numbers(database, "orders", [99], partition=1)
    later = reader.latestOffset(end, ALL)
    assert _batch(reader, end, later) == [99]


def test_a_stream_can_start_at_the_end_or_at_named_offsets(database: Database) -> None:
    _fill(database)
    latest = _reader(database, startingOffsets="latest").initialOffset()
    assert _offsets(latest) == {"orders": {"0": 10, "1": 30}}
    named = _reader(database, startingOffsets='{"orders": {"1": 5}}')
    assert _offsets(named.initialOffset()) == {"orders": {"0": 0, "1": 5}}


def test_a_stream_from_the_end_begins_where_it_first_said(database: Database) -> None:
    """Spark asks twice, and for the end of the first micro-batch in between."""
    _fill(database)
    reader = _reader(database, startingOffsets="latest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    put_numbers(database, "orders", [99], partition=1)
    start = reader.initialOffset()
    assert _batch(reader, start, end) == []
    assert _batch(reader, end, reader.latestOffset(end, ALL)) == [99]


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
        ({"maxBytesPerTrigger": "1KiB"}, ReadMaxBytes(1024)),
        ({"maxOffsetsPerTrigger": "7", "maxBytesPerTrigger": "1KiB"}, ReadMaxRows(7)),
    ],
)
def test_the_options_say_how_much_a_batch_takes(database: Database, options: dict[str, str], limit: ReadLimit) -> None:
    assert _reader(database, **options).getDefaultReadLimit() == limit


def test_a_limit_is_kept_and_everything_arrives_once(database: Database) -> None:
    _fill(database)
    reader = _reader(database, maxOffsetsPerTrigger="7")
    at, found = reader.initialOffset(), list[int]()
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        batch = _batch(reader, at, end)
        assert 0 < len(batch) <= 7
        found, at = found + batch, end
    assert sorted(found) == list(range(40))
    assert reader.latestOffset(reader.initialOffset(), ALL) == at


def test_a_restored_queue_is_read_in_as_many_batches_as_it_has_rows_for(tmp_path: Path) -> None:
    """2^32 offsets name nothing there, and again after each restore."""
    with penstock.open(tmp_path / "data") as first:
        first.declare("orders", partitions=2)
        _fill(first)
    create_backup(tmp_path / "data", tmp_path / "backup", lambda *_: None)
    restore_backup(tmp_path / "backup", tmp_path / "again", lambda *_: None)
    with penstock.open(tmp_path / "again") as database:
        _fill(database, 40)
        reader = _reader(database, maxOffsetsPerTrigger="30", splitRows="25", packRows="1")
        at, found = reader.initialOffset(), list[list[int]]()
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            assert len(reader.partitions(at, end)) <= 30
            found.append(_batch(reader, at, end))
            at = end
        assert [len(batch) for batch in found] == [30, 30, 20]
        assert sorted(number for batch in found for number in batch) == list(range(80))
        whole = parse_options({"path": str(database.directory), "queue": "orders"}, is_stream=False)
        assert len(QueueReader(whole, ("value",)).partitions()) == 1


def test_bytes_limit_a_batch_too(database: Database) -> None:
    for _ in range(10):
        database.put_many("orders", [bytes(1000)] * 10, partition=0)
    put_numbers(database, "orders", [1], partition=0)
    reader = _reader(database, maxBytesPerTrigger="20KB")
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert 10 < end["orders"]["0"] < 30


def test_a_batch_waits_for_enough_rows_or_long_enough(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(database)
    now_s = [100.0]
    monkeypatch.setattr(stream, "_now_s", lambda: now_s[0])
    options = {"minOffsetsPerTrigger": "41", "maxTriggerDelay": "5m"}
    reader = _reader(database, **options)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ALL)
    assert _batch(reader, start, first) == list(range(40))
    put_numbers(database, "orders", range(40, 80), partition=1)
    assert reader.latestOffset(first, ALL) == first
    put_numbers(database, "orders", [80], partition=1)
    end = reader.latestOffset(first, ALL)
    assert _batch(reader, first, end) == list(range(40, 81))
    put_numbers(database, "orders", [81], partition=1)
    now_s[0] += 299
    assert reader.latestOffset(end, ALL) == end
    now_s[0] += 1
    assert _batch(reader, end, reader.latestOffset(end, ALL)) == [81]
    at_once = _reader(database, **options)
    at_once.prepareForTriggerAvailableNow()
    assert len(_batch(at_once, end, at_once.latestOffset(end, ALL))) == 1


def test_the_latest_offsets_say_how_far_a_stream_is_behind(database: Database) -> None:
    _fill(database)
    reader = _reader(database, maxOffsetsPerTrigger="20")
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    latest = json.dumps(reader.reportLatestOffset())
    [told] = source_metrics({"sources": [{"latestOffset": latest}]})
    assert told.pop("bytesBehindLatest") > 0
    assert told == {
        "avgOffsetsBehindLatest": 10,
        "maxOffsetsBehindLatest": 15,
        "minOffsetsBehindLatest": 5,
        "rowsBehindLatest": 20,
    }
    assert reader.reportLatestOffset()[BEHIND] == {"orders": 20}
    assert source_metrics({"sources": [{"latestOffset": None}, {"latestOffset": {"orders": {"0": 1}}}]}) == [{}, {}]


def test_a_stream_that_waits_for_more_rows_says_how_far_it_is_behind(database: Database) -> None:
    _fill(database)
    reader = _reader(database, minOffsetsPerTrigger="1000")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert _batch(reader, start, end) == list(range(40))
    put_numbers(database, "orders", range(40, 49), partition=1)
    assert reader.latestOffset(end, ALL) == end
    [told] = source_metrics({"sources": [{"latestOffset": json.dumps(reader.reportLatestOffset())}]})
    assert (told["rowsBehindLatest"], reader.reportLatestOffset()[BEHIND]) == (9, {"orders": 9})


def test_partitions_are_chosen_and_times_are_given_one_by_one(database: Database) -> None:
    _fill(database)
    given = {"path": str(database.directory), "assign": '{"orders": [1]}'}
    assigned = QueueStreamReader(parse_options(given, is_stream=True), ("value",))
    start = assigned.initialOffset()
    assert _offsets(start) == {"orders": {"1": 0}}
    assert _batch(assigned, start, assigned.latestOffset(start, ALL)) == list(range(10, 40))
    with pytest.raises(InvalidArgument, match="there is no partition 7 of queue 'orders'"):
        wrong = {**given, "assign": '{"orders": [1, 7]}'}
        QueueStreamReader(parse_options(wrong, is_stream=True), ("value",)).initialOffset()
    late = _reader(database, startingOffsetsByTimestamp='{"orders": {"0": 4000000000000}}')
    assert _offsets(late.initialOffset()) == {"orders": {"0": 10, "1": 0}}
    with pytest.raises(InvalidArgument, match="partition 9 of queue 'orders', which is not read"):
        _reader(database, startingOffsetsByTimestamp='{"orders": {"9": 1}}').initialOffset()


def test_regular_expressions_choose_whole_names(database: Database) -> None:
    for name in ("orders-eu", "reorders", "$dlq/orders"):
        database.declare(name, partitions=1)
        until_declared(database, name)
    given = {"path": str(database.directory), "subscribePattern": "orders(-eu)?|.*dlq.*"}
    reader = QueueStreamReader(parse_options(given, is_stream=True), ("value",))
    assert set(_offsets(reader.initialOffset())) == {"orders", "orders-eu"}


def test_a_stream_that_does_not_say_where_it_begins_says_so(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    _reader(database, startingOffsets="earliest").initialOffset()
    assert "not with the latest" not in caplog.text
    _reader(database).initialOffset()
    assert "begins with the earliest offsets, not with the latest" in caplog.text


def test_available_now_takes_nothing_that_came_after_it_began(database: Database) -> None:
    _fill(database)
    reader = _reader(database, maxOffsetsPerTrigger="30")
    reader.prepareForTriggerAvailableNow()
    target = reader.reportLatestOffset()
    _fill(database, 100)
    at = reader.initialOffset()
    for _ in range(3):
        at = reader.latestOffset(at, reader.getDefaultReadLimit())
    assert at == target


def test_an_added_partition_is_read_from_its_beginning(database: Database) -> None:
    _fill(database)
    reader = _reader(database, startingOffsets="latest")
    start = reader.initialOffset()
    database.change("orders", partitions=3)
    put_numbers(database, "orders", [7, 8], partition=2)
    end = reader.latestOffset(start, ALL)
    assert _offsets(end) == {"orders": {"0": 10, "1": 30, "2": 2}}
    assert _batch(reader, start, end) == [7, 8]


def test_a_queue_that_begins_to_match_is_read_with_what_it_holds(database: Database) -> None:
    _fill(database)
    reader = _reader(database, queue="ord*", startingOffsets="latest")
    start = reader.initialOffset()
    put_numbers(database, "orders/late", [1, 2])
    assert _batch(reader, start, reader.latestOffset(start, ALL)) == [1, 2]


def test_a_start_that_a_checkpoint_overrides_is_said_aloud(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    _fill(database)
    reader = _reader(database, startingOffsets="latest")
    reader.latestOffset(reader.initialOffset(), ALL)
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        restarted = _reader(database, startingOffsets="latest")
        restarted.latestOffset({"orders": {"0": 3, "1": 0}}, ALL)
        restarted.latestOffset({"orders": {"0": 3, "1": 0}}, ALL)
    assert [record.getMessage() for record in caplog.records] == [
        "option startingOffsets is not used: the checkpoint goes on at {'orders': {'0': 3, '1': 0}}; "
        "use a new checkpointLocation to start anew"
    ]


def test_trimmed_offsets_end_a_stream_with_their_range(database: Database) -> None:
    _fill(database)
    start = {"orders": {"0": 4, "1": 30}}
    purge(database, "orders")
    put_numbers(database, "orders", [77], partition=0)
    reader = _reader(database)
    with pytest.raises(DataLost, match="6 offsets are gone: offsets 4 to 9 of partition 0 of queue 'orders'"):
        reader.partitions(start, reader.latestOffset(start, ALL))


def test_trimmed_offsets_are_counted_and_passed_over_when_asked(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    _fill(database)
    start = {"orders": {"0": 4, "1": 30}}
    purge(database, "orders")
    put_numbers(database, "orders", [77], partition=0)
    reader = _reader(database, failOnDataLoss="false")
    assert _batch(reader, start, reader.latestOffset(start, ALL)) == [77]
    assert "6 offsets are gone: offsets 4 to 9" in caplog.text


def test_a_queue_that_was_declared_anew_is_never_taken_for_the_old_one_silently(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    _fill(database)
    start = {"orders": {"0": 10, "1": 30}}
    database.delete("orders")
    database.declare("orders", partitions=2)
    put_numbers(database, "orders", [5], partition=0)
    with pytest.raises(DataLost, match=r"ends at offset 1 and was read to 10: the queue was deleted"):
        _reader(database).latestOffset(start, ALL)
    reader = _reader(database, failOnDataLoss="false")
    end = reader.latestOffset(start, ALL)
    assert _batch(reader, start, end) == [5]
    put_numbers(database, "orders", [6], partition=0)
    assert _batch(reader, end, reader.latestOffset(end, ALL)) == [6]


def test_a_queue_that_was_created_anew_is_known_by_its_logs_even_if_it_is_longer_now(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    _fill(database)
    start = _reader(database).initialOffset()
    _create_anew(database)
    with pytest.raises(DataLost, match="partition 0 of queue 'orders' was deleted and created again"):
        _reader(database).latestOffset(start, ALL)
    reader = _reader(database, failOnDataLoss="false")
    end = reader.latestOffset(start, ALL)
    assert "was deleted and created again" in caplog.text
    assert _batch(reader, start, end) == list(range(100, 141))
    assert reader.latestOffset(end, ALL) == end


def test_what_was_planned_is_not_read_from_a_queue_created_anew(database: Database) -> None:
    _fill(database)
    reader = _reader(database)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    tasks = reader.partitions(start, end)
    _create_anew(database)
    with pytest.raises(DataLost, match="whose queue was deleted and created again"):
        _ = [batch for task in tasks for batch in reader.read(task)]
    with pytest.raises(DataLost, match=r"10 offsets are not there: .* created again"):
        reader.partitions(start, end)
    assert _batch(_reader(database, failOnDataLoss="false"), start, end) == []


def test_a_checkpoint_without_logs_goes_on(database: Database) -> None:
    _fill(database)
    reader = _reader(database)
    end = reader.latestOffset({"orders": {"0": 8, "1": 30}}, ALL)
    assert LOGS in end
    assert _batch(reader, {"orders": {"0": 8, "1": 30}}, end) == [8, 9]


def test_a_checkpoint_of_something_else_is_refused(database: Database) -> None:
    with pytest.raises(InvalidArgument, match="not an object"):
        _reader(database).latestOffset({"orders": 5}, ALL)


def test_a_group_shows_in_the_broker_how_far_the_stream_is(tmp_path: Path) -> None:
    with running_server(tmp_path / "server") as server, Client("http://{}:{}".format(*server.address)) as client:
        client.create_queue("orders", {"partitions": 1})
        client.publish_many("orders", [str(number) for number in range(10)])
        options = {"path": str(tmp_path / "server" / "data"), "queue": "orders", "groupId": "spark"}
        reader = QueueStreamReader(parse_options({**options, "url": client.options.url}, is_stream=True), ("value",))
        until_end(tmp_path / "server" / "data", "orders", 10)
        start = reader.initialOffset()
        assert client.group("orders", "spark").lag == 10
        reader.commit({"orders": {"0": 7}})
        assert client.group("orders", "spark").lag == 3
        reader.commit(reader.latestOffset(start, ALL))
        assert client.group("orders", "spark").lag == 0
        reader.stop()


def test_a_group_that_the_broker_refuses_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    with running_server(tmp_path / "server", auth={}) as server:
        server.declare("orders")
        until_end(tmp_path / "server" / "data", "orders", 0)
        options = {"path": str(tmp_path / "server" / "data"), "queue": "orders", "groupId": "spark", "token": "geheim"}
        url = "http://{}:{}".format(*server.address)
        reader = QueueStreamReader(parse_options({**options, "url": url}, is_stream=True), ("value",))
        with pytest.raises(PenstockError, match="401") as caught:
            reader.initialOffset()
        assert "geheim" not in str(caught.value)
        reader.stop()


def test_a_stream_goes_on_while_the_broker_does_not_hear_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running_server(tmp_path / "server") as server:
        progress = GroupProgress("http://{}:{}".format(*server.address), None, "default", "spark")
    progress.tell({PartitionId("orders", 0): 7})
    progress.close()
    assert "progress not told queue=orders group=spark" in caplog.text


def test_a_broker_that_died_makes_a_stream_wait_and_not_report_losses(tmp_path: Path) -> None:
    live = LiveTables(tmp_path)
    live.fill(live.create("orders"), batches=5, rows=3)
    options = parse_options({"path": str(tmp_path), "queue": "orders"}, is_stream=True)
    end = QueueStreamReader(options, ("offset",)).latestOffset({"orders": {"0": 0}}, ALL)
    assert _offsets(end) == {"orders": {"0": 15}}
    live.die()
    waiting = QueueStreamReader(options, ("offset",))
    assert waiting.reportLatestOffset() != end
    assert waiting.latestOffset(end, ALL) == end
    (task,) = waiting.partitions({"orders": {"0": 12}}, end)
    with pytest.raises(PenstockError):
        list(waiting.read(task))
