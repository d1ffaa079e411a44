from __future__ import annotations

from itertools import product

import pytest

from penstock.kernels.plain import value_of
from penstock.log.batch import Batch, encode, seal
from penstock.log.columns import Columns

_COUNT = 5


def _varied(prefix: bytes) -> list[bytes]:
    return [prefix * i for i in range(_COUNT)]


@pytest.mark.parametrize(("topics", "keys", "properties", "native"), list(product([False, True], repeat=4)))
def test_the_value_is_that_of_the_laid_out_batch(topics: bool, keys: bool, properties: bool, native: bool) -> None:
    batch = encode(
        Columns.of(
            _varied(b"value"),
            keys=_varied(b"key") if keys else None,
            topics=[b"topic/%d" % (i % 3) for i in range(_COUNT)] if topics else None,
            properties=_varied(b"p") if properties else None,
            native=_varied(b"native-") if native else None,
        )
    )
    seal(batch, 7, 0, 1000)
    laid_out = Batch.parse(batch)
    assert [value_of(batch, row) for row in range(_COUNT)] == [laid_out.value(row) for row in range(_COUNT)]


@pytest.mark.parametrize("row", [-1, 1, 1 << 40])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    with pytest.raises(IndexError):
        value_of(encode(Columns.of([b"value"])), row)


def test_a_batch_that_ends_early_is_not_read_past_its_end() -> None:
    batch = encode(Columns.of([b"value"], keys=[b"key"]))
    for size in range(len(batch) - 3):
        with pytest.raises(IndexError):
            value_of(batch[:size], 0)
