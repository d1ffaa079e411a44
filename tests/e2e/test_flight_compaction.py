"""A queue that a real server compacts while a stream of Arrow Flight reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import flight
from tests.support.compacted_queue import COMPACTION, QUEUE, ROWS, check_compacted, filled_directory, until_compacted
from tests.support.flight import descriptor
from tests.support.live_server import live_server

import penstock

_SETTINGS = (
    "listeners.flight.port=0",
    "storage.housekeeping_interval=100ms",
    "storage.checkpoint_interval=100ms",
)
_COLUMNS = ["offset", "key", "value"]


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, bytes, bytes]]:
    return zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True)


def test_a_stream_that_is_compacted_under_way_has_every_last_value(tmp_path: Path) -> None:
    data = tmp_path / "data"
    filled_directory(data)
    with (
        live_server(tmp_path, _SETTINGS, data=data) as server,
        penstock.Client(f"http://127.0.0.1:{server.ports['http']}") as http,
        flight.connect(f"grpc://127.0.0.1:{server.ports['flight']}") as client,
    ):
        [endpoint] = client.get_flight_info(descriptor(QUEUE, columns=_COLUMNS)).endpoints
        stream = client.do_get(endpoint.ticket)
        found = list(_rows(stream.read_chunk().data))
        http.update_queue(QUEUE, COMPACTION)
        until_compacted(data)
        found += [row for chunk in stream for row in _rows(chunk.data)]
        # A ticket from before: the range that it names is thinner now, and complete.
        again = [row for chunk in client.do_get(endpoint.ticket) for row in _rows(chunk.data)]
    assert check_compacted(again) < check_compacted(found) < ROWS
