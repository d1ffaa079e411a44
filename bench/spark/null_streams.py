"""A stream that makes its rows when they are due, and sinks that drop theirs: what is left is Spark's own time."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from bench.spark.yardsticks import VALUE_BYTES
from penstock.spark.schema import schema_of

COLUMNS = ("key", "value")
_NS = 1_000_000_000


def rows_due(begun_ns: int, first: int, stop: int, rate: int) -> pa.RecordBatch:
    """Rows number first..stop of so many a second: a value begins with the time, in ns, at which it was due."""
    due = [begun_ns + number * _NS // rate for number in range(first, stop)]
    values = [b"%020d" % each + bytes(VALUE_BYTES - 20) for each in due]
    keys = [b"key-%02d" % (number % 100) for number in range(first, stop)]
    return pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


def due_ns(value: bytes) -> int:
    return int(value[:20])


class _DueReader(DataSourceStreamReader):
    def __init__(self, rate: int) -> None:
        self._rate, self._begun_ns = rate, time.time_ns()

    def initialOffset(self) -> dict[str, int]:
        return {"begun_ns": self._begun_ns, "rows": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        rows = (time.time_ns() - start["begun_ns"]) * self._rate // _NS
        return {"begun_ns": start["begun_ns"], "rows": rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One task: what is due in a micro-batch is not worth two, which cost Spark more."""
        return [InputPartition((start["begun_ns"], start["rows"], end["rows"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        begun_ns, first, stop = partition.value
        yield rows_due(begun_ns, first, stop, self._rate)


class NullStream(DataSource):
    @classmethod
    def name(cls) -> str:
        return "null_stream"

    def schema(self) -> StructType:
        return schema_of(COLUMNS)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _DueReader(int(self.options["rate"]))


@dataclass(frozen=True)
class _Taken(WriterCommitMessage):
    due_ns: bytes


class _DroppingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        return

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        return


class _TimingWriter(DataSourceStreamArrowWriter):
    """At the commit, how long each row took since it was due goes to a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        due = array("q", [due_ns(value) for batch in iterator for value in batch.column("value").to_pylist()])
        return _Taken(due.tobytes())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        now_ns = time.time_ns()
        taken = [now_ns - due for each in messages if isinstance(each, _Taken) for due in array("q", each.due_ns)]
        with self._file.open("ab") as file:
            array("q", taken).tofile(file)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        return


class NullSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "null_sink"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return _DroppingWriter()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return _TimingWriter(Path(self.options["file"]))
