"""Tables of queues that a broker declared."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.core.errors import NoSuchQueue
from penstock.tables.table import Partition, QueueTable, TableDirectory

EMPTY = (0, 0, 0, 0)


def _found(partitions: list[Partition]) -> list[tuple[int, int, int, int]]:
    """Whatever logs they have."""
    return [(one.number, one.start, one.end, one.rows) for one in partitions]


def test_a_declared_queue_is_a_table_before_anything_was_put(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as database:
        database.declare("orders", partitions=3)
        database.declare("shop/returns", partitions=1)
    directory = TableDirectory(tmp_path)
    assert directory.queues() == ["orders", "shop/returns"]
    assert _found(directory.tables()["shop/returns"]) == [EMPTY]
    table = directory.table("orders")
    assert [partition.number for partition in table.partitions()] == [0, 1, 2]
    assert list(table.read(2)) == []
    assert table.offset_at_time(1, 0) == 0
    directory.close()


def test_what_the_broker_changes_is_seen_by_a_reader_that_is_open(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as database:
        database.declare("orders", partitions=1)
    directory = TableDirectory(tmp_path)
    table = directory.table("orders")
    with penstock.open(tmp_path) as database:
        database.put("orders", b"value", key=b"k", headers={"a": "b"})
        database.change("orders", partitions=2)
        database.declare("others", partitions=1)
    assert [(one.number, one.rows) for one in table.partitions()] == [(0, 1), (1, 0)]
    assert directory.queues() == ["orders", "others"]
    [batch] = table.read(0, columns=["key", "value", "headers"])
    assert batch.to_pylist() == [{"key": b"k", "value": b"value", "headers": [{"key": "a", "value": b"b"}]}]
    with penstock.open(tmp_path) as database:
        database.delete("orders")
    with pytest.raises(NoSuchQueue):
        table.partitions()
    with penstock.open(tmp_path) as database:
        database.declare("orders", partitions=1)
    assert _found(table.partitions()) == [EMPTY]
    directory.close()


def test_dead_letters_are_a_table_too(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as database:
        database.declare("orders", partitions=1)
        database.put("orders", b"bad")
        with database.consume("orders", "billing") as messages:
            next(iter(messages)).dead_letter("broken")
    table = QueueTable.open(tmp_path, "orders.dlq")
    found = [
        row
        for one in table.partitions()
        for batch in table.read(one.number, columns=["value", "queue"])
        for row in batch.to_pylist()
    ]
    assert found == [{"value": b"bad", "queue": "$dlq/orders"}]
    table.close()
