"""Rows of a replay say where they come from, and what a transform may give is checked."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.core.errors import InvalidArgument
from penstock.jobs.replay_plan import ReplayPiece
from penstock.jobs.replay_rows import outgoing
from penstock.tables.schema import HEADERS

_PIECE = ReplayPiece(3, 40, 60, 20)


def sent(**columns: object) -> list[dict[str, object]]:
    batch = pa.RecordBatch.from_pydict(columns)
    found: list[dict[str, object]] = outgoing(batch, "orders", _PIECE).to_pylist()
    return found


def pairs(row: dict[str, object]) -> list[tuple[str, bytes]]:
    headers = row["headers"]
    assert isinstance(headers, list)
    return [(pair["key"], pair["value"]) for pair in headers]


def test_a_row_names_the_message_that_it_was() -> None:
    rows = sent(value=["a", None], key=[b"k", None], offset=[41, None])
    assert [(row["value"], row["key"]) for row in rows] == [(b"a", b"k"), (None, None)]
    assert [pairs(row) for row in rows] == [
        [("replayed-from", b"orders:3:41")],
        [("replayed-from", b"orders:3:40-60")],
    ]
    [row] = sent(value=["a"])
    assert pairs(row) == [("replayed-from", b"orders:3:40-60")]


def test_headers_stay_in_order_and_those_of_a_dead_letter_go() -> None:
    given = pa.array(
        [
            [{"key": "a", "value": b"1"}, {"key": "dlq-reason", "value": b"rejected"}, {"key": "a", "value": b"2"}],
            None,
            [{"key": "replayed-from", "value": b"orders:0:1"}],
            [{"key": "b", "value": b"3"}],
        ],
        HEADERS,
    )
    rows = sent(value=["v"] * 4, headers=given, offset=[1, 2, 3, 4])
    assert [pairs(row)[:-1] for row in rows] == [[("a", b"1"), ("a", b"2")], [], [], [("b", b"3")]]
    assert [pairs(row)[-1] for row in rows] == [("replayed-from", b"orders:3:%d" % number) for number in range(1, 5)]


def test_slices_of_batches_keep_their_own_headers() -> None:
    headers = pa.array([[{"key": "n", "value": b"%d" % number}] for number in range(5)], HEADERS)
    batch = pa.RecordBatch.from_pydict({"value": [b"v"] * 5, "headers": headers}).slice(2, 2)
    rows = outgoing(batch, "orders", _PIECE).to_pylist()
    assert [pairs(row)[0] for row in rows] == [("n", b"2"), ("n", b"3")]


def test_an_address_of_the_old_queue_is_no_topic_of_the_new_one() -> None:
    rows = sent(value=["a", "b"], topic=["$queue/orders", "sensors/1"])
    assert [row["topic"] for row in rows] == [None, "sensors/1"]


def test_other_columns_of_a_table_are_taken_and_say_nothing() -> None:
    [row] = sent(value=["a"], queue=["orders"], partition=[3], timestampType=[0])
    assert (row["value"], row["key"], row["topic"], len(pairs(row))) == (b"a", None, None, 1)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"key": ["a"]}, "no column value"),
        ({"value": ["a"], "total": [1]}, "a column 'total'"),
        ({"value": [1]}, "value is int64, not text or bytes: cast it, like value::text"),
        ({"value": ["a"], "offset": ["x"]}, "offset is string, not a whole number"),
        ({"value": ["a"], "headers": ["x"]}, "headers is string"),
    ],
)
def test_what_cannot_be_sent_is_named(columns: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said.replace("(", ".")):
        sent(**columns)
