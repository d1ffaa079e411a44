"""Tasks and drivers of a write, as Spark calls them, without a JVM, against a real server."""

from __future__ import annotations

import io
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType
from pyspark.util import handle_worker_exception
from tests.support.http_server import RunningServer, running_server

import penstock
from penstock.broker.staging import epochs
from penstock.core.errors import ErrorCode, InvalidArgument, PenstockError
from penstock.spark import staging
from penstock.spark.daemon import quiet, say
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


@pytest.fixture
def all_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """As tasks with many rows do; these have few."""
    monkeypatch.setattr(staging, "CARRIED_BYTES", 0)


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


@pytest.mark.usefixtures("all_staged")
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


@pytest.mark.usefixtures("all_staged")
def test_a_write_to_a_misspelt_queue_is_refused_if_none_is_to_be_created(
    server: RunningServer, http: penstock.Client
) -> None:
    with pytest.raises(PenstockError, match="no queue 'alrets'"):
        _writer(server, queue="alrets", createQueues="false").write(_rows())
    assert "alrets" not in [queue.name for queue in http.queues()]


@pytest.mark.usefixtures("all_staged")
def test_another_try_of_a_task_is_harmless(server: RunningServer, http: penstock.Client) -> None:
    """A retry, a task that runs twice or one that nobody waits for any more: the driver gets one message of each."""
    writer = _writer(server)
    lost, counted = writer.write(_rows()), writer.write(_rows())
    writer.commit([counted])
    late = writer.write(_rows())
    assert lost.ranges and late.ranges and _held(http) == ROWS


@pytest.mark.usefixtures("all_staged")
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


@pytest.mark.usefixtures("all_staged")
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


@pytest.mark.usefixtures("all_staged")
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


@pytest.mark.usefixtures("all_staged")
def test_a_task_that_may_not_wait_says_what_it_waited_for(server: RunningServer, http: penstock.Client) -> None:
    http.create_group("alerts", "readers")
    http.update_queue("alerts", {"limits": {"max_queue_depth": 300}})
    with pytest.raises(PenstockError, match=r"queue 'alerts': nothing moved for 0 s.*queue-full") as caught:
        _writer(server, waitSeconds="0", batchRows="100").write(_rows())
    assert caught.value.code is ErrorCode.QUEUE_FULL


def test_few_rows_are_not_staged_and_come_with_the_commit_once(server: RunningServer, http: penstock.Client) -> None:
    before, writer = _stages(server), _writer(server)
    messages = [writer.write(_rows()), writer.write(_rows(0)), writer.write(_rows(50))]
    lost = writer.write(_rows())
    assert [bool(message.rows) for message in messages] == [True, False, True] and lost.rows
    assert not any(message.ranges for message in messages) and _stages(server) == before
    _copy(writer).commit([*messages])
    server.restart()
    _copy(writer).commit([*messages])
    with penstock.Client("http://{}:{}".format(*server.address)) as again:
        assert again.queue("alerts").messages == ROWS + 50


def test_rows_keep_the_order_of_their_tasks_whoever_of_them_has_staged(
    server: RunningServer, http: penstock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    http.create_queue("ordered", {"partitions": 1})
    writer = _writer(server, queue="ordered")
    messages: list[WriterCommitMessage | None] = []
    for value, carried_bytes in (("a", 1 << 20), ("b", 0), ("c", 1 << 20), ("d", 0)):
        monkeypatch.setattr(staging, "CARRIED_BYTES", carried_bytes)
        messages.append(writer.write(iter([pa.record_batch({"value": [value]})])))
    writer.commit(messages)
    assert [message.value for message in http.browse("ordered")] == [b"a", b"b", b"c", b"d"]


def test_rows_that_are_many_or_name_their_partition_are_staged(server: RunningServer, http: penstock.Client) -> None:
    writer = _writer(server)
    large = pa.record_batch({"value": [bytes(600_000)]})
    many = writer.write(iter([large, large]))
    named = writer.write(iter([pa.record_batch({"value": ["x"], "partition": pa.array([1], pa.int32())})]))
    assert many.ranges and named.ranges and not many.rows and not named.rows
    writer.commit([many, named])
    assert _held(http) == 3


def test_a_commit_waits_for_a_full_queue_and_is_refused_whole(server: RunningServer, http: penstock.Client) -> None:
    http.create_group("alerts", "readers")
    http.update_queue("alerts", {"limits": {"max_queue_depth": 300}})
    writer = _writer(server, waitSeconds="0")
    message = writer.write(_rows())
    with pytest.raises(PenstockError, match=r"the commit of epoch 0 to queue 'alerts'.*queue-full") as caught:
        writer.commit([message])
    assert caught.value.code is ErrorCode.QUEUE_FULL and _held(http) == 0
    http.update_queue("alerts", {"limits": {"max_queue_depth": ROWS}})
    writer.commit([message])
    assert _held(http) == ROWS


def test_few_rows_for_a_misspelt_queue_are_refused_if_none_is_to_be_created(
    server: RunningServer, http: penstock.Client
) -> None:
    writer = _writer(server, queue="alrets", createQueues="false")
    with pytest.raises(PenstockError, match="no queue 'alrets'"):
        writer.commit([writer.write(_rows())])
    assert "alrets" not in [queue.name for queue in http.queues()]


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


_BOTH = {"queue": "", "queues": "alerts, others"}


def _written(server: RunningServer, schema: StructType, rows: pa.RecordBatch, **options: str) -> None:
    given = {name: text for name, text in _options(server, **options).items() if text}
    writer = _copy(QueueWriter(parse_sink_options(given, is_stream=False), schema))
    writer.commit([writer.write(iter([rows]))])


def test_each_row_goes_to_the_queue_that_it_names(server: RunningServer, http: penstock.Client) -> None:
    http.create_queue("others", {"partitions": 1})
    stages = _stages(server)
    rows = pa.record_batch({"queue": ["alerts", "others", "alerts"], "value": ["1", "2", "3"]})
    schema = StructType([StructField("queue", StringType()), StructField("value", StringType())])
    _written(server, schema, rows, **_BOTH)
    assert (_held(http), http.queue("others").messages) == (2, 1)
    for wrong in ("elsewhere", None):
        with pytest.raises(InvalidArgument, match="which is not one of the option queues"):
            _written(server, schema, pa.record_batch({"queue": ["alerts", wrong], "value": ["4", "5"]}), **_BOTH)
    with pytest.raises(InvalidArgument, match="A column 'topic' is not a target"):
        _written(server, _SCHEMA, rows, **_BOTH)
    assert (_held(http), _stages(server)) == (2, stages)


def _read(server: RunningServer, **options: str) -> tuple[StructType, pa.RecordBatch]:
    """All rows, as a batch reads them."""
    source = PenstockSource(_options(server, **options))
    schema = source.schema()
    reader = source.reader(schema)
    batches: list[pa.RecordBatch] = [batch for task in reader.partitions() for batch in reader.read(task)]
    [rows] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return schema, rows


def test_a_row_that_was_read_is_written_as_it_is(server: RunningServer, http: penstock.Client) -> None:
    http.publish("alerts", "hot", key="k", headers={"a": "1"})
    http.publish_many("alerts", [{"n": 1}])
    schema, rows = _read(server, includeHeaders="true", includeDeadLetters="true")
    http.create_queue("copies", {"partitions": 2})
    _written(server, schema, rows, queue="copies")
    assert http.queue("copies").messages == 2


@pytest.mark.parametrize("carried_bytes", [1 << 20, 0])
def test_a_null_value_is_read_back_as_null_and_so_is_that_of_its_copy(
    server: RunningServer, http: penstock.Client, monkeypatch: pytest.MonkeyPatch, carried_bytes: int
) -> None:
    monkeypatch.setattr(staging, "CARRIED_BYTES", carried_bytes)
    values = {"a": "x", "b": None, "c": "", "d": None}
    written = pa.record_batch({"key": [*values], "value": pa.array(list(values.values()), pa.string())})
    _written(server, _SCHEMA, written)
    schema, rows = _read(server, includeHeaders="true")
    http.create_queue("copies", {"partitions": 2})
    _written(server, schema, rows, queue="copies")
    for found in (rows, _read(server, queue="copies", includeHeaders="true")[1]):
        by_key = {row["key"]: (row["value"], row["headers"]) for row in found.to_pylist()}
        assert by_key == {b"a": (b"x", []), b"b": (None, []), b"c": (b"", []), b"d": (None, [])}


def test_a_batch_with_a_key_is_written_once_however_often_it_is_said(
    server: RunningServer, http: penstock.Client
) -> None:
    http.create_queue("others", {"partitions": 1})
    [rows] = _rows(10)
    stages = _stages(server)
    for epoch in (0, 0, 1, 0):
        for queue in ("alerts", "others"):
            _written(server, _SCHEMA, rows, queue=queue, queryId="nightly", epochId=str(epoch))
    assert (_held(http), http.queue("others").messages, _stages(server)) == (20, 20, stages)


def test_writes_without_a_key_are_single_ones_of_which_there_may_be_any_number(
    server: RunningServer, http: penstock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of queries whose epochs are kept for a month there is room for so many."""
    [rows] = _rows(10)
    _written(server, _SCHEMA, rows, queryId="one", epochId="0")
    monkeypatch.setattr(epochs, "MAX_QUERIES", 1)
    for carried_bytes in (1 << 20, 0):
        monkeypatch.setattr(staging, "CARRIED_BYTES", carried_bytes)
        for _ in range(3):
            _written(server, _SCHEMA, rows)
        with pytest.raises(PenstockError, match="say that it is a single write"):
            _written(server, _SCHEMA, rows, queryId="two", epochId="0")
    assert _held(http) == 70


def test_a_batch_with_a_key_is_written_to_each_namespace(server: RunningServer, http: penstock.Client) -> None:
    [rows] = _rows(10)
    for namespace in ("default", "other", "default", "other"):
        _written(server, _SCHEMA, rows, queryId="two-spaces", epochId="1", namespace=namespace)
    with penstock.Client("http://{}:{}".format(*server.address), namespace="other") as other:
        assert (_held(http), _held(other)) == (10, 10)


def test_our_own_errors_are_told_in_one_line(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    told = io.BytesIO()
    try:
        PenstockSource({"queu": "x"}).schema()
    except PenstockError as error:
        handle_worker_exception(error, told)
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    assert told.getvalue()[8:] == (
        b"penstock.core.errors.InvalidArgument: no option 'queu' of format penstock: did you mean queue?\n"
    )
    refused = PenstockSource({"queue": "x", "endingOffsets": "latest"}).streamReader(_SCHEMA)
    with pytest.raises(InvalidArgument, match="endingOffsets has no meaning in a stream"):
        refused.initialOffset()
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)


def test_a_worker_that_was_let_go_ends_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    def gone(sock: socket.socket, authenticated: bool) -> int:
        raise BrokenPipeError

    with socket.socket() as sock:
        assert quiet(gone)(sock, True) != 0  # what pyspark.daemon ends a worker for
    say("PySpark daemon failed to flush:\nBrokenPipeError: [Errno 32] Broken pipe")
    say("something else")
    assert capsys.readouterr().out == "something else\n"


def test_a_commit_imports_nothing_that_only_reads() -> None:
    """Spark has a process for commits alone: the first one of a query waits for its imports."""
    heavy = ("pyarrow.compute", "penstock.spark.stream", "penstock.tables.table", "penstock.client.http")
    code = f"import sys, penstock.spark.source, penstock.spark.writer; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
