"""A queue that is compacted while tasks of Spark read it from the data directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.compacted_queue import COMPACTION, QUEUE, ROWS, check_compacted, fill, until_compacted

import penstock
from penstock.broker.broker import BrokerOptions
from penstock.embedded.database import Database
from penstock.log.options import ShardOptions
from penstock.log.segments.keeper import KeeperOptions

_EAGER = BrokerOptions(ShardOptions(keeper=KeeperOptions(checkpoint_s=0.1), housekeeping_s=0.1))
_DEADLINE_S = 60.0


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with penstock.open(tmp_path / "data", options=_EAGER) as opened:
        fill(opened)
        yield opened


def _waiting(place: Path) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows as they come; behind the first ones of a task it says so and waits to be let go on."""

    def passed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deadline = time.monotonic() + _DEADLINE_S
        for batch in batches:
            yield batch
            (place / "begun").touch()
            _until_there(place / "goes on", deadline)

    return passed


def _until_there(path: Path, deadline: float) -> None:
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        time.sleep(0.01)


def _compact_once_begun(database: Database, place: Path) -> None:
    _until_there(place / "begun", time.monotonic() + _DEADLINE_S)
    database.change(QUEUE, **COMPACTION)
    until_compacted(database.directory)
    (place / "goes on").touch()


def test_a_table_that_is_compacted_under_way_has_every_last_value(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    """Four tasks, two at a time: the first ones are in the middle then, the others find their ranges thinned."""
    options = {"path": str(database.directory), "queue": QUEUE, "columns": "offset,key,value", "minPartitions": "4"}
    table = spark.read.format("penstock").options(**options).load()
    read = table.mapInArrow(_waiting(tmp_path), table.schema)
    with ThreadPoolExecutor(1) as pool:
        compacting = pool.submit(_compact_once_begun, database, tmp_path)
        found = read.toArrow()
        compacting.result()
    assert check_compacted(zip(*(column.to_pylist() for column in found.columns), strict=True)) < ROWS
