"""kill -9 of a server while rows are appended and epochs are committed over Arrow Flight, staged or by one call."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.faults import kill, wait_until
from tests.support.live_server import LiveServer, live_server

from penstock.client.errors import ConnectionLost
from penstock.client.flight import FlightClient, FlightRefused, StagedRange
from penstock.core.errors import ErrorCode

pytestmark = pytest.mark.faults

ROUNDS, EPOCH_ROWS = 4, 30
_SETTINGS = ["listeners.flight.port=0", "storage.disk_reserve=0"]


@dataclass
class Written:
    """What clients were told, across the lives of the server."""

    appended: set[bytes] = field(default_factory=set)
    next_append: int = 0
    next_epoch: int = 0
    repeated: int = 0


@contextmanager
def server(directory: Path) -> Iterator[LiveServer]:
    (directory / "ready.json").unlink(missing_ok=True)
    with live_server(directory, _SETTINGS) as live:
        yield live


def url_of(live: LiveServer) -> str:
    return f"grpc://127.0.0.1:{live.ports['flight']}"


def append_until_it_is_gone(live: LiveServer, written: Written) -> None:
    with FlightClient(url_of(live)) as client:
        try:
            while True:
                values = [b"%d.%d" % (written.next_append, row) for row in range(10)]
                written.next_append += 1
                client.append("appended", pa.record_batch({"key": values, "value": values}))
                written.appended.update(values)
        except (ConnectionLost, FlightRefused):
            return


def sink_until_it_is_gone(live: LiveServer, written: Written) -> None:
    """An epoch is staged and committed until its commit was answered; then the next one comes."""
    with FlightClient(url_of(live)) as client:
        try:
            while True:
                commit_epoch(client, written)
        except (ConnectionLost, FlightRefused):
            return


def commit_epoch(client: FlightClient, written: Written) -> None:
    """Every other one by one call, as a sink with few rows does it."""
    epoch = written.next_epoch
    if epoch % 2:
        committed = client.commit_rows("sink", epoch, "sunk", batches_of(epoch), pipeline="sink")
    else:
        committed = client.commit("sink", epoch, staged(client, epoch), pipeline="sink")
    written.repeated += committed.is_repeated
    assert sum(place.rows for place in committed.placed) == EPOCH_ROWS
    written.next_epoch += 1


def staged(client: FlightClient, epoch: int) -> list[StagedRange]:
    with client.stager("sunk", writer="sink") as stager:
        for batch in batches_of(epoch):
            stager.stage(batch)
    return stager.ranges


def batches_of(epoch: int) -> list[pa.RecordBatch]:
    values = [b"%d.%d" % (epoch, row) for row in range(EPOCH_ROWS)]
    parts = [values[at : at + 10] for at in range(0, EPOCH_ROWS, 10)]
    return [pa.record_batch({"key": part, "value": part}) for part in parts]


def test_nothing_acknowledged_is_lost_and_every_epoch_is_there_once(tmp_path: Path) -> None:
    rng, written = random.Random(3), Written()
    for _ in range(ROUNDS):
        with server(tmp_path) as live:
            threads = [
                threading.Thread(target=write, args=(live, written))
                for write in (append_until_it_is_gone, sink_until_it_is_gone)
            ]
            wanted = written.next_epoch + 3
            for thread in threads:
                thread.start()
            wait_until(lambda: written.next_epoch >= wanted, "epochs")  # noqa: B023
            time.sleep(rng.random() / 20)  # anywhere in an epoch
            kill(live.process)
            for thread in threads:
                thread.join()
    with server(tmp_path) as live, FlightClient(url_of(live)) as client:
        commit_epoch(client, written)
        again = client.commit("sink", 0, [], pipeline="sink")
        assert again.is_repeated
        with pytest.raises(FlightRefused) as refused:
            client.commit("another", 0, [], pipeline="sink")
        assert refused.value.code is ErrorCode.PIPELINE_KNOWN
        sunk = values_of(client, "sunk", written.next_epoch * EPOCH_ROWS)
        assert sorted(sunk) == sorted(
            b"%d.%d" % (epoch, row) for epoch in range(written.next_epoch) for row in range(EPOCH_ROWS)
        )
        appended = values_of(client, "appended", len(written.appended))
        assert written.appended <= set(appended)
        batches = [value.partition(b".")[0] for value in appended]
        assert {batches.count(batch) for batch in set(batches)} == {10}  # whole, and once each


def values_of(client: FlightClient, queue: str, at_least: int) -> list[bytes]:
    wait_until(lambda: sum(one.rows for one in client.partitions(queue)) >= at_least, f"rows of {queue}")
    return [
        value
        for one in client.partitions(queue)
        for batch in client.read(queue, one.number, one.start, one.end, ["value"])
        for value in batch.column("value").to_pylist()
    ]
