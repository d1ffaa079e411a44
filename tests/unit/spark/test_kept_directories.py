"""Readers of directories that workers keep from one task to the next."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.numbered import until_declared, until_end

import penstock
from penstock.core.errors import DirectoryFormat
from penstock.spark.directory import kept_directory


def _filled(place: Path, queue: str, values: list[str]) -> None:
    with penstock.open(place) as database:
        database.declare(queue, partitions=1)
        until_declared(database, queue)
        database.put_many(queue, values)
        until_end(place, queue, len(values))


def _values(place: Path, queue: str) -> list[bytes]:
    kept = kept_directory(str(place))
    rows = [value for batch in kept.table(queue).read(0) for value in batch.column("value").to_pylist()]
    kept.close()
    return rows


def test_a_reader_is_kept_and_sees_what_comes(tmp_path: Path) -> None:
    place = tmp_path / "data"
    with penstock.open(place) as database:
        database.declare("orders", partitions=1)
        until_declared(database, "orders")
        database.put_many("orders", ["one"])
        until_end(place, "orders", 1)
        first = kept_directory(str(place))
        assert _values(place, "orders") == [b"one"]
        database.put_many("orders", ["two"])
        until_end(place, "orders", 2)
        assert _values(place, "orders") == [b"one", b"two"]
        assert kept_directory(str(place)) is first


def test_another_directory_in_the_place_of_one_is_read_anew(tmp_path: Path) -> None:
    place = tmp_path / "data"
    _filled(place, "orders", ["old"])
    assert _values(place, "orders") == [b"old"]
    shutil.rmtree(place)
    with pytest.raises(DirectoryFormat):
        kept_directory(str(place))
    _filled(place, "returns", ["new"])
    assert _values(place, "returns") == [b"new"]
