"""The view of stored batches, of rows on their way in, and of one row: the same everywhere."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.amqp091 import TASK, Native, Typed

from penstock.broker.feed.stored import StoredBatch
from penstock.core.errors import InvalidArgument
from penstock.core.types import Compression
from penstock.log.batch import NATIVE, PROPERTIES, Batch, encode, seal, select_rows
from penstock.log.columns import Columns
from penstock.log.view import amqp091_of, check_native, has_native, viewed, viewed_columns, viewed_properties
from penstock.queues.properties import Envelope, pack, unpack

OWN = pack(Envelope((("mine", "1"),), "own/type"))
NATIVES = st.sampled_from([b"", TASK.stored(), Native(content_type=b"text/plain").stored(), b"\x01", b"\x91", b"\x10"])
ROWS = st.lists(st.tuples(st.sampled_from([b"", OWN]), NATIVES, st.binary(max_size=9)), min_size=1, max_size=6)


def columns(rows: list[tuple[bytes, bytes, bytes]]) -> Columns:
    properties = [own for own, _, _ in rows]
    natives = [native for _, native, _ in rows]
    return Columns.of(
        [value for _, _, value in rows],
        topics=[b"t"] * len(rows),
        properties=properties if any(properties) else None,
        native=natives if any(natives) else None,
    )


def sealed(of: Columns, compression: Compression = Compression.NONE) -> bytearray:
    batch = encode(of, compression)
    seal(batch, 10, 0, 1)
    return batch


def shown(of: Columns) -> list[bytes]:
    spans = of.properties
    if spans is None:
        return [b""] * of.count
    return [bytes(of.source[a:b]) for a, b in zip(spans.starts, spans.ends, strict=True)]


@given(ROWS, st.sampled_from(list(Compression)))
def test_batches_columns_and_rows_are_shown_alike(rows: list[tuple[bytes, bytes, bytes]], how: Compression) -> None:
    data = sealed(columns(rows), how)
    batch, view = Batch.parse(data), viewed(Batch.parse(data))
    expected = [viewed_properties(own or None, native or None) for own, native, _ in rows]
    assert [view.properties(row) for row in range(len(rows))] == expected
    assert [each or None for each in shown(viewed_columns(columns(rows)))] == expected
    assert [row._replace(properties=None) for row in view] == [row._replace(properties=None) for row in batch]
    assert has_native(data) == any(native for _, native, _ in rows)
    assert [each or None for each in shown(view.columns())] == expected


def test_what_has_nothing_native_is_not_touched() -> None:
    for of in (Columns.of([b"v"], properties=[OWN]), Columns.of([b"v"], native=[b"\x02"])):
        batch = Batch.parse(sealed(of))
        assert viewed(batch) is batch
    plain = Columns.of([b"v"], properties=[OWN])
    assert viewed_columns(plain) is plain
    assert viewed_properties(OWN, None) is OWN


def test_a_stored_batch_is_viewed_once_and_stays_what_it_is() -> None:
    stored = StoredBatch.of(sealed(Columns.of([b"v"], native=[TASK.stored()])))
    assert stored.has_native
    assert stored.view is stored.view
    assert stored.view is not stored.batch
    assert (stored.batch.properties(0), stored.message(0).native) == (None, TASK.stored())
    assert stored.view.header.flags == stored.batch.header.flags | PROPERTIES


def test_thinning_a_batch_keeps_what_is_left_of_it() -> None:
    data = sealed(Columns.of([b"a", b"b", b"c"], native=[TASK.stored(), b"", TASK.stored()]))
    thinned = Batch.parse(select_rows(data, array("i", [1, 2])))
    assert [thinned.native(row) for row in range(2)] == [None, TASK.stored()]
    assert thinned.header.flags & NATIVE
    assert unpack(viewed(thinned).properties(1) or b"").content_type == "application/json"


def test_rows_go_to_amqp_as_they_came_or_as_their_properties_say() -> None:
    of = Columns.of([b"a", b"b", b"c"], keys=[b"", b"k", b""], native=[TASK.stored(), b"", TASK.stored()])
    batch = Batch.parse(sealed(of))
    source, spans = amqp091_of(batch, array("i", [2, 1]), array("q", [0, 1500]))
    made = [bytes(source[a:b]) for a, b in zip(spans.starts, spans.ends, strict=True)]
    keyed = Native(headers=[(b"partition-key", Typed("S", b"k"))], expiration=b"1500")
    assert made == [TASK.values(), keyed.values()]
    source, spans = amqp091_of(batch, array("i", [0, 2]))
    assert source is batch.body
    assert [bytes(source[a:b]) for a, b in zip(spans.starts, spans.ends, strict=True)] == [TASK.values()] * 2


def test_a_door_is_told_which_row_cannot_be_stored() -> None:
    good = TASK.stored()
    starts, ends = array("i", [0, len(good), len(good)]), array("i", [len(good), len(good), 2 * len(good) - 1])
    with pytest.raises(InvalidArgument, match="row 2"):
        check_native(good + good[:-1], starts, ends)
    check_native(good, starts[:2], ends[:2])
