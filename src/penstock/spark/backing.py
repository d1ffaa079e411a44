"""Where rows come from: a data directory or a server, one like the other for all that plans and reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from penstock.core.errors import InvalidArgument
from penstock.spark.directory import QueueDirectory
from penstock.spark.offsets import OffsetRange, PartitionId
from penstock.spark.options import SourceOptions
from penstock.spark.places import Seen
from penstock.spark.remote import QueueServer


class Backing(Protocol):
    """One thread, one process: it is opened where it is used, and never pickled."""

    is_whole: bool
    """False if the last seen() may have missed the newest rows, as a broker that died has not started again"""

    def seen(self, is_patient: bool = False) -> Seen:
        """All partitions that the query reads, as of now. NoSuchQueue for one that is named and not there; the patient
        wait for that until a broker that died has started again."""
        ...

    def offset_at_time(self, source: PartitionId, timestamp_ms: int) -> int:
        """The end if all rows are older."""
        ...

    def read(self, wanted: OffsetRange, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Rows in order. DataLost if some are gone, or if the partition is another one by now; that is counted and
        logged where the options let it pass."""
        ...

    def read_all(self, ranges: Sequence[OffsetRange], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """read() of one range after the other."""
        ...

    def close(self) -> None: ...


def open_backing(options: SourceOptions, *, follows: bool = False) -> Backing:
    """`follows`: what is new is to be seen soon, until close()."""
    if options.server is not None:
        return QueueServer(options, options.server)
    if options.path is None:
        raise InvalidArgument("neither path nor url says where to read")
    return QueueDirectory(options, options.path, follows)
