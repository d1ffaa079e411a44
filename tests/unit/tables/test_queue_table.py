from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.letters import to_properties
from tests.support.live_tables import LiveTables, values, written

import penstock
from penstock.core.errors import InvalidArgument, NoSuchQueue
from penstock.core.types import Compression, Durability
from penstock.log.columns import Columns
from penstock.queues.deadletter import DeadLetter, Reason
from penstock.queues.names import group_name, message_id_prefix, parse_message_id
from penstock.queues.properties import Envelope, pack
from penstock.tables.errors import BeyondEnd, QueueReplaced, Trimmed
from penstock.tables.incoming import columns_of
from penstock.tables.schema import DEFAULT_COLUMNS, HEADERS, SCHEMA
from penstock.tables.table import Partition, QueueTable, TableDirectory


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveTables]:
    live = LiveTables(tmp_path)
    yield live
    live.lock.release()


def read_values(
    table: QueueTable, start: int | None = None, stop: int | None = None, batch_rows: int = 10_000
) -> list[bytes]:
    reading = table.read(0, start, stop, ["value"], batch_rows)
    return [value for batch in reading for value in batch.column("value").to_pylist()]


def read_rows(table: QueueTable, *columns: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for batch in table.read(0, columns=columns or None):
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


def test_a_row_has_the_columns_of_the_schema(tmp_path: Path) -> None:
    properties = pack(Envelope((("a", "1"), ("a", "2")), content_type="text/plain", correlation_id=b"\xff"))
    columns = Columns.of([b"one", b""], keys=[b"k", b""], topics=[b"sensors/1", b""], properties=[properties, b""])
    written(tmp_path, "orders", [columns])
    table = QueueTable.open(tmp_path, "orders")
    first, second = read_rows(table, *SCHEMA.names)
    assert (first["key"], first["value"], first["topic"]) == (b"k", b"one", "sensors/1")
    assert (first["queue"], first["partition"], first["offset"], first["timestampType"]) == ("orders", 0, 0, 0)
    assert first["headers"] == [
        {"key": "content-type", "value": b"text/plain"},
        {"key": "correlation-id", "value": b"\xff"},
        {"key": "a", "value": b"1"},
        {"key": "a", "value": b"2"},
    ]
    assert (second["key"], second["value"], second["topic"], second["headers"]) == (None, b"", "$queue/orders", [])
    [batch] = table.read(0)
    assert tuple(batch.schema.names) == DEFAULT_COLUMNS
    table.close()


def test_a_dead_letter_says_whence_and_why(tmp_path: Path) -> None:
    facts = DeadLetter(
        parse_message_id(f"{message_id_prefix('orders', 7, 3)}42"),
        group_name("workers"),
        Reason.MAX_RETRIES,
        moved_ms=1_700_000_000_000,
        detail="no such customer",
        delivery_count=4,
        failures=3,
    )
    forged = pack(Envelope((("dlq-reason", "who knows"), ("dlq-offset", "many"), ("dlq-partition", str(1 << 40)))))
    properties = [b"", to_properties(facts, b""), forged]
    written(tmp_path, "$dlq/orders", [Columns.of([b"a", b"b", b"c"], properties=properties)])
    table = QueueTable.open(tmp_path, "$dlq/orders")
    plain, letter, odd = [row["deadLetter"] for row in read_rows(table, "deadLetter", "headers")]
    assert plain is None
    assert letter == {
        "queue": "orders",
        "partition": 3,
        "offset": 42,
        "group": "workers",
        "reason": "max-retries",
        "detail": "no such customer",
        "deliveryCount": 4,
        "failures": 3,
        "firstFailed": None,
        "time": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    }
    assert isinstance(odd, dict)
    assert (odd["reason"], odd["offset"], odd["partition"], odd["queue"]) == ("who knows", None, None, None)
    table.close()


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("batch_rows", [1, 7, 10_000])
def test_batches_of_any_kind_come_back_in_order(tmp_path: Path, compression: Compression, batch_rows: int) -> None:
    batches = [Columns.of(values(first, first + 30)) for first in range(0, 300, 30)]
    batches.append(Columns.of(values(300, 303), topics=[b"t"] * 3, keys=[b"k"] * 3))
    written(tmp_path, "orders", batches, compression)
    table = QueueTable.open(tmp_path, "orders")
    assert read_values(table, batch_rows=batch_rows) == values(0, 303)
    assert read_values(table, 31, 301, batch_rows=batch_rows) == values(31, 301)
    sizes = [batch.num_rows for batch in table.read(0, batch_rows=batch_rows)]
    assert max(sizes) <= batch_rows
    table.close()


def test_only_the_asked_columns_are_made(tmp_path: Path) -> None:
    written(tmp_path, "orders", [Columns.of([b"v"])])
    table = QueueTable.open(tmp_path, "orders")
    assert read_rows(table, "partition", "queue") == [{"partition": 0, "queue": "orders"}]
    with pytest.raises(InvalidArgument, match="did you mean offset"):
        table.read(0, columns=["ofset"])
    with pytest.raises(InvalidArgument, match="each once"):
        table.read(0, columns=["key", "key"])
    table.close()


def test_topics_that_are_not_text_are_shown_with_replacements(tmp_path: Path) -> None:
    written(tmp_path, "orders", [Columns.of([b"v"], topics=[b"a\xff"])])
    assert read_rows(QueueTable.open(tmp_path, "orders"), "topic") == [{"topic": "a\N{REPLACEMENT CHARACTER}"}]


def test_a_live_queue_is_read_as_it_grows_and_never_beyond(live: LiveTables) -> None:
    log = live.create("orders")
    live.fill(log, 20)
    table = QueueTable.open(live.root, "orders")
    assert table.partitions() == [Partition(0, 0, 60, 60, log.number)]
    assert read_values(table) == values(0, 60)
    live.shard.append(log, b"not in a file yet")
    live.shard.commit()
    assert read_values(table) == values(0, 60)
    with pytest.raises(BeyondEnd, match="up to offset 60 now, not to 61"):
        list(table.read(0, 60, 61))
    live.shard.settle()
    assert read_values(table, 60) == [b"not in a file yet"]


def test_a_trim_during_a_read_names_the_range_that_is_lost(live: LiveTables) -> None:
    log = live.create("orders")
    live.fill(log, 20)
    table = QueueTable.open(live.root, "orders")
    reading = table.read(0, 3, 60)
    live.trim(log, 31)
    with pytest.raises(Trimmed, match=r"offsets 3\.\.31 of partition 0") as trimmed:
        list(reading)
    assert (trimmed.value.wanted, trimmed.value.start) == (3, 31)
    assert table.partitions()[0].start == 31
    assert read_values(table) == values(31, 60)


def test_a_lost_range_can_be_skipped_and_is_counted(live: LiveTables) -> None:
    log = live.create("orders")
    live.fill(log, 20)
    live.trim(log, 31)
    reading = QueueTable.open(live.root, "orders").read(0, 3, 60, ["value"], skip_trimmed=True)
    assert [value for batch in reading for value in batch.column(0).to_pylist()] == values(31, 60)
    assert (reading.skipped, reading.skipped_offsets) == ([(3, 31)], 28)
    gone = QueueTable.open(live.root, "orders").read(0, 3, 20, skip_trimmed=True)
    assert list(gone) == []
    assert gone.skipped == [(3, 20)]


def test_after_a_crash_rows_behind_the_checkpoint_are_no_shorter_answer(live: LiveTables) -> None:
    log = live.create("orders")
    live.fill(log, 10)
    assert live.shard.engine.keeper.write_checkpoint()
    live.fill(log, 10)
    table = QueueTable.open(live.root, "orders")
    planned_end = table.partitions()[0].end
    live.die()
    with pytest.raises(BeyondEnd, match="once that has started"):
        list(table.read(0, 0, planned_end))
    assert read_values(table) == values(0, 30)


def test_offsets_skipped_after_a_crash_are_no_rows(live: LiveTables) -> None:
    live.fill(live.create("orders", durability=Durability.INTERVAL), 4)
    live.die()
    reopened = LiveTables(live.root)
    [log] = [log for log in reopened.shard.engine.logs.values() if log.name == "default/orders/0"]
    reopened.fill(log, 2)
    table = QueueTable.open(live.root, "orders")
    [partition] = table.partitions()
    assert (partition.start, partition.end, partition.rows) == (0, 18 + 2**32, 18)
    first_end, second_start = 12, 12 + 2**32
    assert read_values(table) == values(0, first_end) + values(second_start, second_start + 6)
    assert read_values(table, first_end, second_start) == []
    assert read_values(table, first_end + 5, second_start + 1) == values(second_start, second_start + 1)
    reopened.close()


def test_times_are_places(live: LiveTables) -> None:
    log = live.create("orders")
    begun_ms = live.clock.now_ms()
    live.fill(log, 20)
    table = QueueTable.open(live.root, "orders")
    assert table.offset_at_time(0, begun_ms) == 0
    assert table.offset_at_time(0, begun_ms + 91) == 30
    assert table.offset_at_time(0, begun_ms + 10_000) == 60
    timestamps = [row["timestamp"] for row in read_rows(table, "timestamp")]
    assert timestamps == sorted(timestamps, key=str)


def test_queues_are_found_by_name_and_pattern_and_partitions_as_they_come(live: LiveTables) -> None:
    for queue in ("orders", "orders/eu", "returns", "$dlq/orders"):
        live.create(queue)
    directory = TableDirectory(live.root)
    assert directory.queues() == ["$dlq/orders", "orders", "orders/eu", "returns"]
    assert directory.matching("orders*") == ["orders", "orders/eu"]
    assert directory.matching("$dlq/*") == ["$dlq/orders"]
    assert directory.queues("elsewhere") == []
    assert directory.table("orders.dlq").queue == "$dlq/orders"
    with pytest.raises(NoSuchQueue):
        directory.table("order")
    table = directory.table("orders")
    with pytest.raises(InvalidArgument, match="has no partition 3, it has 0"):
        table.read(3)
    live.create("orders", 3)
    assert [partition.number for partition in table.partitions()] == [0, 3]
    assert list(table.read(3)) == []


def test_a_queue_that_is_deleted_during_a_read_is_an_error_and_its_successor_another_one(live: LiveTables) -> None:
    log = live.create("orders")
    live.fill(log, 20)
    table = QueueTable.open(live.root, "orders")
    reading = table.read(0)
    live.shard.engine.stage_delete(log, live.shard.done)
    live.shard.settle()
    with pytest.raises(NoSuchQueue):
        list(reading)
    with pytest.raises(NoSuchQueue):
        table.partitions()
    live.fill(live.create("orders"), 1)
    assert read_values(table) == values(0, 3)


def test_a_directory_in_use_is_not_changed_by_reading(live: LiveTables) -> None:
    log = live.create("orders")
    live.fill(log, 5)
    before = sorted((path, path.stat().st_mtime_ns) for path in live.root.rglob("*"))
    assert read_values(QueueTable.open(live.root, "orders")) == values(0, 15)
    assert sorted((path, path.stat().st_mtime_ns) for path in live.root.rglob("*")) == before


def test_numbers_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    written(tmp_path, "orders", [Columns.of([b"v"])])
    table = QueueTable.open(tmp_path, "orders")
    with pytest.raises(InvalidArgument, match="below 0"):
        table.read(0, -1)
    with pytest.raises(InvalidArgument, match="batch_rows"):
        table.read(0, batch_rows=0)
    assert list(table.read(0, 1, 1)) == []


def test_a_partition_that_is_another_log_by_now_is_refused(live: LiveTables) -> None:
    log = live.create("orders")
    live.fill(log, 2)
    table = QueueTable.open(live.root, "orders")
    [partition] = table.partitions()
    assert partition.log == log.number
    assert sum(batch.num_rows for batch in table.read(0, log=log.number)) == partition.rows
    with pytest.raises(QueueReplaced, match="deleted and created again"):
        table.read(0, log=log.number + 1)
    table.close()


def test_null_values_stay_null_and_empty_ones_empty(tmp_path: Path) -> None:
    headers = [[("a", "1")], None, [("b", "2"), ("c", "3")], []]
    pairs = [None if row is None else [{"key": k, "value": v.encode()} for k, v in row] for row in headers]
    values = pa.array([None, b"", None, b"x"], pa.binary())
    with penstock.open(tmp_path) as database:
        database.declare("orders", partitions=1)
        given = columns_of(pa.record_batch({"value": values, "headers": pa.array(pairs, HEADERS)}))
        database.put_many("orders", pa.table({"value": values, "properties": given.properties}))
        database.put_many("orders", pa.table({"value": values}))
        database.put("orders", b"", headers={"null-value": "yes"})
        database.put("orders", b"no", headers={"null-value": "yes"})
    table = QueueTable.open(tmp_path, "orders")
    assert [row["value"] for row in read_rows(table, "value")] == [None, b"", None, b"x"] * 2 + [None, b"no"]
    found = read_rows(table, "headers", "value")
    assert [row["value"] for row in found][:4] == [None, b"", None, b"x"]
    assert [row["headers"] for row in found] == [row or [] for row in pairs] + [[]] * 6
    table.close()
