"""Rows on their way from a server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
from pyarrow import flight

from penstock.client.flight.problems import translated


class Rows(Iterator[pa.RecordBatch]):
    """Batches of about 10,000 rows: all rows of the range in order, or an error on the way (FlightRefused with the code
    TRIMMED, QUEUE_REPLACED, OFFSET_OUT_OF_RANGE or another; ConnectionLost). One thread. Who stops before the end calls
    close()."""

    def __init__(self, stream: flight.FlightStreamReader) -> None:
        self._stream = stream
        with translated():
            self.schema: pa.Schema = stream.schema
        self.skipped: list[tuple[int, int]] = []
        """ranges of offsets that were gone and passed over, up to now"""

    @property
    def skipped_offsets(self) -> int:
        return sum(stop - start for start, stop in self.skipped)

    def __next__(self) -> pa.RecordBatch:
        while True:
            with translated():
                batch, metadata = self._stream.read_chunk()
            if metadata is not None:
                self.skipped += [(start, stop) for start, stop in json.loads(metadata.to_pybytes())["skipped"]]
            if batch is not None and batch.num_rows:
                return batch

    def close(self) -> None:
        """The server sends no more."""
        self._stream.cancel()
