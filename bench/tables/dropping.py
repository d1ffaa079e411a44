"""A Flight server that answers every record batch and keeps none: `python dropping.py PORT READY_FILE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
from pyarrow import flight


class Dropping(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow ships no types
    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        for chunk in reader:
            rows = chunk.data.num_rows
            writer.write(pa.py_buffer(json.dumps({"rows": rows, "placed": [[0, 0, rows]]}).encode()))


if __name__ == "__main__":
    server = Dropping(f"grpc://127.0.0.1:{sys.argv[1]}")
    Path(sys.argv[2]).touch()
    server.serve()
