from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.broker import SMALL
from tests.support.loop import run

from penstock.core.errors import CorruptBatch, TooLarge
from penstock.core.types import Compression
from penstock.log.batch import Batch, build, encode, seal
from penstock.log.columns import Columns
from penstock.log.encoded import Encoded
from penstock.log.names import log_name
from penstock.log.reading.arrow_encoding import ArrowColumns, encoded
from penstock.log.records import LogSettings
from penstock.log.shard import Shard

BYTES = st.binary(max_size=6)


def arrow(rows: list[bytes] | None) -> pa.Array | None:
    return None if rows is None else pa.array(rows, pa.binary())


@given(st.data())
def test_the_batch_is_byte_for_byte_that_of_the_same_records(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 20))
    column = st.lists(BYTES, min_size=count, max_size=count)
    value = data.draw(column)
    key, topic, properties = (data.draw(st.none() | column) for _ in range(3))
    first = data.draw(st.integers(0, count - 1))
    stop = data.draw(st.integers(first + 1, count))
    columns = ArrowColumns(*map(arrow, (value, key, topic, properties))).part(first, stop)
    key, topic, properties = (None if each is None else each[first:stop] for each in (key, topic, properties))
    wanted = encode(Columns.of(value[first:stop], keys=key, topics=topic, properties=properties))
    found = bytearray().join(encoded(columns))
    assert found == wanted
    assert columns.bytes >= len(found)


def test_a_body_larger_than_any_frame_is_refused() -> None:
    with pytest.raises(TooLarge):
        encoded(ArrowColumns(pa.array([bytes(17 << 20)])))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_an_encoded_batch_is_stored_like_columns(tmp_path: Path, compression: Compression) -> None:
    async def main() -> None:
        columns = Columns.of([b"a" * 300, b"b" * 300], keys=[b"k", b""], topics=[b"t", b""])
        async with await Shard.open(tmp_path, SMALL) as shard:
            logs = [
                await shard.create(log_name("test", name), LogSettings(compression=compression)) for name in ("x", "y")
            ]
            taken = Encoded.checked(encode(columns))
            assert (taken.count, taken.longest_value) == (2, 300)
            assert await shard.commit([(logs[0], taken), (logs[1], columns)]) == [0, 0]
            [mine], [plain] = [await shard.read(log, 0, 1 << 20) for log in logs]
            rows = [[row._replace(timestamp=0) for row in Batch.parse(data)] for data in (mine, plain)]
            assert rows[0] == rows[1]

    run(main())


def test_what_no_columns_are_encoded_to_is_refused() -> None:
    columns = Columns.of([b"a", b"b"])
    good = encode(columns)
    sealed = build(columns, 0, None, None)
    seal(sealed, 5, 0, 7)
    assert Encoded.checked(sealed).count == 2  # what a log decides is written over
    for at, byte in ((0, 0), (20, 9), (28, 0x7F), (64, 9)):
        bad = bytearray(good)
        bad[at] = byte
        with pytest.raises(CorruptBatch):
            Encoded.checked(bad)
    for bad in (good[:-1], good + b"\0", bytearray(), encode(Columns.of([b"a"], native=[b"n"]))):
        with pytest.raises(CorruptBatch):
            Encoded.checked(bytearray(bad))
