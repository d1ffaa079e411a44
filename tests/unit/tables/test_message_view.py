"""Messages that came by AMQP 0.9.1, as rows of a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.amqp091 import TASK, TASK_HEADERS
from tests.support.letters import to_properties
from tests.support.live_tables import LiveTables, written

from penstock.core.types import Compression
from penstock.log.columns import Columns
from penstock.log.records import Compaction
from penstock.queues.deadletter import DeadLetter, Reason
from penstock.queues.names import group_name, parse_message_id
from penstock.queues.properties import Envelope, pack
from penstock.tables.schema import SCHEMA
from penstock.tables.table import QueueTable

NATIVE = TASK.stored()
HEADERS = [
    {"key": "content-type", "value": b"application/json"},
    {"key": "content-encoding", "value": b"utf-8"},
    {"key": "reply-to", "value": b"$queue/answers"},
    *({"key": name, "value": value.encode()} for name, value in TASK_HEADERS[1:]),
    {"key": "correlation-id", "value": b"c-1"},
]


def rows(path: Path, *columns: str) -> list[dict[str, object]]:
    table = QueueTable.open(path, "tasks")
    found: list[dict[str, object]] = []
    for batch in table.read(0, columns=columns):
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("batches", [1, 3])
def test_headers_are_what_every_reader_sees(tmp_path: Path, compression: Compression, batches: int) -> None:
    own = pack(Envelope((("mine", "1"),)))
    mixed = Columns.of([b"a", b"b", b"c"], native=[NATIVE, b"", NATIVE], properties=[b"", own, own])
    plain = Columns.of([b"p"], properties=[own])
    written(tmp_path, "tasks", [mixed, plain, mixed][:batches], compression)
    found = rows(tmp_path, "value", "headers")
    mine = {"key": "mine", "value": b"1"}
    of_mixed = [HEADERS, [mine], [mine, *HEADERS]]
    assert [row["headers"] for row in found] == [*of_mixed, *([[mine], *of_mixed] if batches > 1 else [])]


def test_a_row_has_what_came_as_it_came(tmp_path: Path) -> None:
    written(tmp_path, "tasks", [Columns.of([b"a", b"b"], native=[NATIVE, b""])])
    assert [row["native"] for row in rows(tmp_path, *SCHEMA.names)] == [NATIVE, None]
    assert [row["native"] for row in rows(tmp_path, "native")] == [NATIVE, None]


def test_a_dead_letter_has_its_facts_and_its_headers(tmp_path: Path) -> None:
    facts = DeadLetter(parse_message_id("tasks@1:0:5"), group_name("g"), Reason.REJECTED, 5)
    written(tmp_path, "tasks", [Columns.of([b"a"], native=[NATIVE], properties=[to_properties(facts, b"")])])
    [row] = rows(tmp_path, "deadLetter", "headers")
    assert isinstance(row["deadLetter"], dict) and isinstance(row["headers"], list)
    assert row["deadLetter"]["reason"] == "rejected"
    assert row["headers"][-len(HEADERS) :] == HEADERS


def test_damaged_bytes_stop_no_reader(tmp_path: Path) -> None:
    written(tmp_path, "tasks", [Columns.of([b"a", b"b"], native=[NATIVE[:-3], NATIVE])])
    assert [row["headers"] for row in rows(tmp_path, "headers")] == [[], HEADERS]


def test_a_queue_is_compacted_by_a_property_that_came_by_amqp(tmp_path: Path) -> None:
    live = LiveTables(tmp_path)
    log = live.create("tasks", compaction=Compaction(property="lang", lag_s=0.0, interval_s=0.0))
    for number in range(60):
        live.append(log, Columns.of([b"%d" % number], native=[NATIVE]))
    live.compact()
    assert len(rows(tmp_path, "value")) < 60
    live.close()
