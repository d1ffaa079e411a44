"""Tasks and drivers of a write, as Spark calls them, without a JVM, against a real server."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType
from tests.support.http_server import RunningServer, running_server

import penstock
from penstock.core.errors import ErrorCode, InvalidArgument, PenstockError
from penstock.spark.sink_options import parse_sink_options
from penstock.spark.source import PenstockSource
from penstock.spark.writer import CannotCommit, QueueStreamWriter, QueueWriter, TaskStaged

_SCHEMA = StructType([StructField("key", StringType()), StructField("value", StringType())])
ROWS = 1000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Its Flight listener keeps its port when it starts again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    listeners = {"mqtt": {"port": 0}, "mqtt_ws": {"port": 0}, "http": {"port": 0}, "flight": {"port": port}}
    with running_server(tmp_path_factory.mktemp("sink"), listeners=listeners) as running:
        yield running


@pytest.fixture
def http(server: RunningServer) -> Iterator[penstock.Client]:
    with penstock.Client("http://{}:{}".format(*server.address)) as client:
        client.create_queue("alerts", {"partitions": 2})
        yield client
    server.forget()


def _options(server: RunningServer, **options: str) -> dict[str, str]:
    return {"url": "grpc://{}:{}".format(*server.server.addresses["flight"]), "queue": "alerts", **options}


def _writer(server: RunningServer, **options: str) -> QueueWriter:
    """As an executor or the driver's process for commits has it: pickled."""
    made = QueueWriter(parse_sink_options(_options(server, **options), is_stream=False), _SCHEMA)
    return _copy(made)


def _copy(writer: QueueWriter) -> QueueWriter:
    copied = pickle.loads(pickle.dumps(writer))
    assert isinstance(copied, QueueWriter)
    return copied


def _rows(count: int = ROWS, size: int = 100) -> Iterator[pa.RecordBatch]:
    for first in range(0, count, size):
        values = pa.array(range(first, min(first + size, count))).cast(pa.string())
        yield pa.record_batch({"key": values, "value": values})


def _held(http: penstock.Client) -> int:
    return http.queue("alerts").messages


def _stages(server: RunningServer) -> int:
    return server.call(lambda: server.broker.staging.stage_count)


def test_what_tasks_stage_is_seen_when_the_driver_commits_and_then_all_of_it(
    server: RunningServer, http: penstock.Client
) -> None:
    writer = _writer(server, batchRows="300")
    messages = [writer.write(_rows()), writer.write(_rows(0)), writer.write(_rows(50))]
    assert [sum(each.rows for each in message.ranges) for message in messages] == [ROWS, 0, 50]
    assert [len(message.ranges) for message in messages] == [4, 0, 1]
    assert _held(http) == 0
    _copy(writer).commit([*messages])
    assert _held(http) == ROWS + 50
    _copy(writer).commit([*messages])
    assert _held(http) == ROWS + 50


def test_another_try_of_a_task_is_harmless(server: RunningServer, http: penstock.Client) -> None:
    """A retry, a task that runs twice or one that nobody waits for any more: the driver gets one message of each."""
    writer = _writer(server)
    lost, counted = writer.write(_rows()), writer.write(_rows())
    writer.commit([counted])
    late = writer.write(_rows())
    assert lost.ranges and late.ranges and _held(http) == ROWS


def test_a_write_that_fails_gives_up_what_was_staged(server: RunningServer, http: penstock.Client) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from _rows()
        raise ValueError("not this time")

    before, writer = _stages(server), _writer(server)
    with pytest.raises(ValueError, match="not this time"):
        writer.write(failing())
    message = writer.write(_rows())
    assert _stages(server) > before
    writer.abort([message, None])
    assert _stages(server) <= before + 1 and _held(http) == 0
    with pytest.raises(PenstockError) as caught:
        writer.commit([message])
    assert caught.value.code is ErrorCode.STAGE_GONE


def test_rows_are_committed_after_the_server_was_away(server: RunningServer, http: penstock.Client) -> None:
    writer = _writer(server)

    def interrupted() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(_rows()):
            if number == 5:
                server.restart()
            yield batch

    message = writer.write(interrupted())
    server.restart()
    writer.commit([message])
    with penstock.Client("http://{}:{}".format(*server.address)) as again:
        assert again.queue("alerts").messages == ROWS


def test_a_full_queue_slows_a_task_down(server: RunningServer, http: penstock.Client) -> None:
    http.create_group("alerts", "readers")
    http.update_queue("alerts", {"limits": {"max_queue_depth": 300}})
    writer, found = _writer(server, batchRows="100"), list[TaskStaged]()
    task = threading.Thread(target=lambda: found.append(writer.write(_rows())))
    task.start()
    task.join(0.5)
    assert task.is_alive()
    http.update_queue("alerts", {"limits": {"max_queue_depth": 10 * ROWS}})
    task.join()
    writer.commit([*found])
    assert _held(http) == ROWS


def test_a_task_that_may_not_wait_says_what_it_waited_for(server: RunningServer, http: penstock.Client) -> None:
    http.create_group("alerts", "readers")
    http.update_queue("alerts", {"limits": {"max_queue_depth": 300}})
    with pytest.raises(PenstockError, match=r"queue 'alerts': nothing moved for 0 s.*queue-full") as caught:
        _writer(server, waitSeconds="0", batchRows="100").write(_rows())
    assert caught.value.code is ErrorCode.QUEUE_FULL


def test_messages_that_do_not_belong_together_are_not_committed(server: RunningServer, http: penstock.Client) -> None:
    writer, other = _writer(server), _writer(server)
    messages = [writer.write(_rows(10)), other.write(_rows(10))]
    of_two: list[WriterCommitMessage | None] = [*messages]
    of_some: list[WriterCommitMessage | None] = [messages[0], None]
    for told in (of_two, of_some):
        with pytest.raises(CannotCommit):
            writer.commit(told)
    assert _held(http) == 0


def test_a_task_without_a_query_writes_nothing(server: RunningServer, http: penstock.Client) -> None:
    writer = QueueStreamWriter(parse_sink_options(_options(server), is_stream=True), _SCHEMA)
    with pytest.raises(CannotCommit, match=r"sql\.streaming\.queryId"):
        writer.write(_rows())


def test_pipelines_belong_to_one_query(server: RunningServer, http: penstock.Client) -> None:
    options = parse_sink_options(_options(server, pipeline="sums"), is_stream=True)
    reset = parse_sink_options(_options(server, pipeline="sums", resetPipeline="true"), is_stream=True)
    first, second = _writer(server).write(_rows()), _writer(server).write(_rows())
    QueueStreamWriter(options, _SCHEMA).commit([first], 0)
    with pytest.raises(PenstockError, match="sums") as caught:
        QueueStreamWriter(options, _SCHEMA).commit([second], 0)
    assert caught.value.code is ErrorCode.PIPELINE_KNOWN and _held(http) == ROWS
    QueueStreamWriter(reset, _SCHEMA).commit([second], 0)
    assert _held(http) == 2 * ROWS


def test_queues_are_not_replaced(server: RunningServer) -> None:
    with pytest.raises(InvalidArgument, match="never replaced"):
        PenstockSource(_options(server)).writer(_SCHEMA, overwrite=True)
    with pytest.raises(InvalidArgument, match="never replaced"):
        PenstockSource(_options(server)).streamWriter(_SCHEMA, overwrite=True)
