from __future__ import annotations

import datetime
import subprocess
import sys
from array import array

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.batches import Records, records

from penstock.core.errors import CorruptBatch, InvalidArgument
from penstock.core.types import Compression
from penstock.log.arrow import SCHEMA, record_batch, table
from penstock.log.batch import Batch, encode, seal, select_rows
from penstock.log.columns import Columns

UTC = datetime.UTC


def sealed(columns: Columns, compression: Compression = Compression.NONE) -> bytearray:
    batch = encode(columns, compression)
    seal(batch, 50, 1, 1_700_000_000_123)
    return batch


@given(some=records(), compression=st.sampled_from(list(Compression)), draw=st.data())
@settings(max_examples=60, deadline=None)
def test_a_record_batch_holds_the_rows_of_the_batch(
    some: Records, compression: Compression, draw: st.DataObject
) -> None:
    whole = sealed(some.columns(), compression)
    picked = sorted(draw.draw(st.sets(st.integers(0, len(some.values) - 1))))
    for data in (whole, select_rows(whole, array("i", picked))):
        found = record_batch(data)
        found.validate(full=True)
        assert found.schema == SCHEMA
        rows = list(Batch.parse(data))
        assert found["offset"].to_pylist() == [row.offset for row in rows]
        assert found["value"].to_pylist() == [row.value for row in rows]
        for name in ("key", "topic", "properties", "native"):
            assert found[name].to_pylist() == [getattr(row, name) or b"" for row in rows]
        assert found["expiry"].to_pylist() == [row.expiry for row in rows]


def test_timestamps_are_utc_milliseconds() -> None:
    (stamp,) = record_batch(sealed(Columns.of([b"a"])))["timestamp"].to_pylist()
    assert stamp == datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)


def test_values_are_not_copied() -> None:
    data = bytes(sealed(Columns.of([b"first", b"second"])))
    values = record_batch(data, ["value"]).column(0).buffers()[2]
    address = pa.py_buffer(data).address
    assert address <= values.address < address + len(data)


def test_the_batch_lives_as_long_as_what_wraps_it() -> None:
    found = record_batch(memoryview(bytes(sealed(Columns.of([b"x" * 1000])))))
    assert found["value"].to_pylist() == [b"x" * 1000]


def test_only_the_named_columns_are_given_in_their_order() -> None:
    found = record_batch(sealed(Columns.of([b"a"], keys=[b"k"])), ["key", "offset"])
    assert found.to_pylist() == [{"key": b"k", "offset": 50}]


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(InvalidArgument, match="'headers'"):
        record_batch(sealed(Columns.of([b"a"])), ["headers"])


def test_a_damaged_batch_is_refused() -> None:
    data = sealed(Columns.of([b"a"]))
    data[-8] ^= 1
    with pytest.raises(CorruptBatch):
        record_batch(data)
    record_batch(data, verify=False)


def test_a_table_has_a_chunk_a_batch() -> None:
    batches = [bytes(sealed(Columns.of([b"%d" % i] * 3, topics=[b"t%d" % i] * 3))) for i in range(4)]
    found = table(iter(batches), ["value", "topic"])
    found.validate(full=True)
    assert found["value"].num_chunks == 4
    assert found["value"].to_pylist() == [b"%d" % (i // 3) for i in range(12)]
    assert found["topic"].to_pylist() == [b"t%d" % (i // 3) for i in range(12)]


def test_a_table_of_nothing_has_its_columns() -> None:
    assert table([]).schema == SCHEMA
    assert table([], ["key"]).num_rows == 0


def test_without_pyarrow_the_extra_is_named() -> None:
    program = "import sys; sys.modules['pyarrow'] = None; import penstock.log.arrow"
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert failed.returncode != 0
    assert "pip install 'penstock[arrow]'" in failed.stderr
