from __future__ import annotations

from array import array

import pytest
from tests.support.kernels import builds

from penstock.core.errors import CorruptBatch
from penstock.core.ports import Buffer
from penstock.core.types import Compression
from penstock.log.arrow import SCHEMA, table
from penstock.log.batch import encode, seal, select_rows
from penstock.log.columns import Columns
from penstock.log.reading import joined as joining
from penstock.log.reading.joined import join


def sealed(first: int, columns: Columns, compression: Compression = Compression.NONE) -> Buffer:
    batch = encode(columns, compression)
    seal(batch, first, 1, 1_700_000_000_000 + first)
    return batch


def all_kinds() -> list[Buffer]:
    """Columns that are there and not, compressed and thinned batches, one without any rows."""
    plain = sealed(0, Columns.of([b"a", b"", b"ccc"]))
    full = sealed(
        3,
        Columns.of(
            [b"v%d" % i * 30 for i in range(9)],
            keys=[b"k"] * 9,
            topics=[b"t/%d" % (i % 3) for i in range(9)],
            properties=[b"", b"p"] + [b""] * 7,
            native=[b"n"] * 9,
            expiry=array("q", range(9)),
        ),
        Compression.LZ4,
    )
    thinned = select_rows(sealed(12, Columns.of([b"x"] * 4, topics=[b"", b"u", b"", b"w"])), array("i", [1, 3]))
    return [plain, full, thinned, select_rows(sealed(16, Columns.of([b"y"] * 2)), array("i"))]


@pytest.mark.parametrize("kernel", builds("joined"))
def test_joined_batches_have_the_rows_that_arrow_would_join(kernel: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "kernel", kernel)
    batches = all_kinds()
    whole = join(batches)
    whole.validate(full=True)
    assert whole.schema == SCHEMA
    assert whole.to_pylist() == table(batches).to_pylist()
    assert join(batches, ["topic", "offset"]).to_pylist() == table(batches, ["topic", "offset"]).to_pylist()


@pytest.mark.parametrize("kernel", builds("joined"))
def test_a_body_that_is_not_what_its_header_says_is_refused(kernel: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "kernel", kernel)
    bad = bytearray(sealed(0, Columns.of([b"a", b"b"])))
    bad[20] = 200
    with pytest.raises(CorruptBatch):
        join([bytes(bad)])
