"""Rows that another process encoded."""

from __future__ import annotations

from penstock.log.columns import Columns
from penstock.log.encoded import Encoded, encode


def test_rows_of_one_partition_are_scattered_as_they_are_encoded() -> None:
    rows = Encoded.checked(encode(Columns.of([b"a", b"b"], keys=[b"k", b"k"])))
    [(_, mine)] = rows.scatter(8)
    assert mine is rows


def test_rows_of_several_partitions_are_scattered_as_their_columns_are() -> None:
    columns = Columns.of([b"%d" % row for row in range(100)], keys=[b"k%d" % (row % 7) for row in range(100)])
    rows = Encoded.checked(encode(columns))
    found = {partition: encode(mine) for partition, mine in rows.scatter(4)}
    assert found == {partition: encode(mine) for partition, mine in columns.scatter(4)}
    assert len(found) > 1
