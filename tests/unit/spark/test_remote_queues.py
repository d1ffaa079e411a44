"""Queues read from a server, as Spark calls it, without a JVM: the same as from its directory."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from tests.support.http_server import RunningServer, running_server
from tests.support.numbered import numbers_of, until_end

import penstock
from penstock.client.errors import ConnectionLost
from penstock.client.flight import FlightClient, PartitionRange, Rows
from penstock.core.errors import ErrorCode, InvalidArgument, NoSuchQueue, PenstockError
from penstock.spark.offsets import OffsetsJson
from penstock.spark.options import parse_options
from penstock.spark.places import DataLost
from penstock.spark.source import PenstockSource
from penstock.spark.stream import QueueStreamReader

ALL = ReadAllAvailable()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Its Flight listener keeps its port when it starts again."""
    listeners = {"mqtt": {"port": 0}, "mqtt_ws": {"port": 0}, "http": {"port": 0}, "flight": {"port": _free_port()}}
    with running_server(tmp_path_factory.mktemp("served"), listeners=listeners) as running:
        yield running


@pytest.fixture
def http(server: RunningServer) -> Iterator[penstock.Client]:
    with penstock.Client("http://{}:{}".format(*server.address)) as client:
        yield client
    server.forget()


def _data(server: RunningServer) -> Path:
    return server.place / "data"


def _url(server: RunningServer) -> str:
    return "grpc://{}:{}".format(*server.server.addresses["flight"])


def _put(server: RunningServer, http: penstock.Client, numbers: range, end: int, queue: str = "orders") -> None:
    """So that readers see the queue end there."""
    http.publish_many(queue, [str(number) for number in numbers])
    until_end(_data(server), queue, end)


def _read(**options: str) -> list[dict[str, object]]:
    given = {"queue": "orders", **options}
    source = PenstockSource({name: text for name, text in given.items() if text})
    reader = source.reader(source.schema())
    batches: list[pa.RecordBatch] = [batch for task in reader.partitions() for batch in reader.read(task)]
    return [row for batch in batches for row in batch.to_pylist()]


def _stream(server: RunningServer, **options: str) -> QueueStreamReader:
    given = {"url": _url(server), "queue": "orders", **options}
    return QueueStreamReader(parse_options(given, is_stream=True), ("value",))


def _batch(reader: QueueStreamReader, start: OffsetsJson, end: OffsetsJson) -> list[int]:
    return sorted(numbers_of(batch for task in reader.partitions(start, end) for batch in reader.read(task)))


def test_a_server_gives_what_its_directory_gives(server: RunningServer, http: penstock.Client) -> None:
    http.create_queue("orders", {"partitions": 3})
    http.create_queue("orders/eu")
    http.create_queue("$dlq/orders")
    _put(server, http, range(500), 500)
    http.publish("orders", "500", key="k", headers={"a": "1"})
    until_end(_data(server), "orders", 501)
    _put(server, http, range(501, 510), 9, "$dlq/orders")
    for options in (
        {"includeHeaders": "true"},
        {"queue": "order*", "includeDeadLetters": "true"},
        {"columns": "value", "startingOffsets": '{"orders": {"1": -1}}', "minPartitions": "7"},
        {"endingTimestamp": "0"},
        {"startingTimestamp": "0"},
        {"queue": "", "subscribePattern": "orders(/.+)?"},
        {"queue": "", "assign": '{"orders": [1, 2]}', "startingOffsetsByTimestamp": '{"orders": {"1": 0}}'},
    ):
        served = _read(url=_url(server), **options)
        assert served == _read(path=str(_data(server)), **options)
    assert len(_read(url=_url(server), includeDeadLetters="true")) == 510
    with FlightClient(_url(server)) as client:
        for one in client.partitions("orders"):
            assert one.extents == (((one.start, one.end, one.rows),) if one.rows else ())


def test_a_queue_that_is_not_there_is_named(server: RunningServer, http: penstock.Client) -> None:
    with pytest.raises(NoSuchQueue, match="nobody"):
        _read(url=_url(server), queue="nobody")
    assert _read(url=_url(server), queue="nobody*") == []
    with pytest.raises(InvalidArgument, match="is a pattern"):
        _read(url=_url(server), queue="no*", namespace="other")


def test_a_server_that_is_not_there_ends_a_query_that_may_not_wait() -> None:
    with pytest.raises(PenstockError, match="nothing moved for 0 s, the option waitSeconds") as caught:
        _read(url=f"grpc://127.0.0.1:{_free_port()}", waitSeconds="0")
    assert caught.value.code is ErrorCode.CONNECTION_LOST


def test_a_stream_reads_what_comes_and_keeps_to_its_limits(server: RunningServer, http: penstock.Client) -> None:
    http.create_queue("orders", {"partitions": 2})
    _put(server, http, range(1000), 1000)
    reader = _stream(server, maxBytesPerTrigger="2KiB")
    at, found = reader.initialOffset(), list[int]()
    assert isinstance(reader.getDefaultReadLimit(), ReadMaxBytes)
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        found, at = found + (batch := _batch(reader, at, end)), end
        assert 0 < len(batch) < 600
    assert sorted(found) == list(range(1000))
    reader.stop()


def test_trimmed_offsets_and_queues_created_anew_are_errors_or_counted(
    server: RunningServer, http: penstock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    http.create_queue("orders", {"partitions": 1})
    _put(server, http, range(10), 10)
    reader, passing = _stream(server), _stream(server, failOnDataLoss="false")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    tasks, passing_tasks = reader.partitions(start, end), passing.partitions(start, end)
    http.delete_queue("orders")
    http.create_queue("orders", {"partitions": 1})
    _put(server, http, range(100, 120), 20)
    with pytest.raises(DataLost, match="created again"):
        _ = [batch for task in tasks for batch in reader.read(task)]
    with pytest.raises(DataLost, match="was deleted and created again"):
        reader.latestOffset(end, ALL)
    assert [batch for task in passing_tasks for batch in passing.read(task)] == []
    assert "10 offsets are gone: offsets 0 to 9" in caplog.text
    assert _batch(passing, end, passing.latestOffset(end, ALL)) == list(range(100, 120))


def test_a_read_goes_on_when_the_server_was_away(server: RunningServer, http: penstock.Client) -> None:
    http.create_queue("orders", {"partitions": 1, "limits": {"max_queue_depth": 1_000_000}})
    for first in range(0, 60_000, 10_000):
        _put(server, http, range(first, first + 10_000), first + 10_000)
    reader = _stream(server, packRows="60000")
    start = reader.initialOffset()
    [task] = reader.partitions(start, reader.latestOffset(start, ALL))
    rows = reader.read(task)
    found = [next(rows)]
    server.restart()
    found += rows
    assert numbers_of(found) == list(range(60_000))
    latest = reader.latestOffset(start, ALL)
    assert latest.items() <= reader.reportLatestOffset().items()
    reader.stop()


def test_the_partitions_of_a_small_task_are_read_by_one_call_and_one_by_one_where_that_fails(
    server: RunningServer, http: penstock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    http.create_queue("parts", {"partitions": 5})
    numbers = [str(number) for number in range(100)]
    with FlightClient(_url(server)) as client:
        client.append("parts", pa.record_batch({"key": numbers, "value": numbers}))
    options, calls = {"url": _url(server), "queue": "parts"}, list[int]()
    until_end(_data(server), "parts", 100)
    plain, away = FlightClient.read, list[str]()

    def counted(self: FlightClient, *place: Any, more: Sequence[PartitionRange] = (), **wanted: Any) -> Rows:
        calls.append(1 + len(more))
        if more and away:
            raise ConnectionLost(away[0])
        return plain(self, *place, more=more, **wanted)

    monkeypatch.setattr(FlightClient, "read", counted)
    read = _read(**options, columns="value")
    assert (len(read), [*read[0]], calls) == (100, ["value"], [5])
    away.append("gone")
    assert _read(**options, columns="value") == read
    assert calls == [5, 5, 1, 1, 1, 1, 1]
