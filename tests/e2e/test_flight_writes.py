"""Rows written over Arrow Flight to a real server, by our client and by plain pyarrow."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.support.cli import penstock as run_command
from tests.support.faults import wait_until
from tests.support.flight import read, wait_for_rows
from tests.support.live_server import LiveServer, live_server

import penstock
from penstock.client.errors import ConnectionLost
from penstock.client.flight import FlightClient, FlightRefused, Stager
from penstock.core.errors import ErrorCode

_FLIGHT = "listeners.flight.port=0"
_PASSWORD = "correct horse battery"
VALUE = pa.schema([("value", pa.binary())])


@dataclass(frozen=True)
class Served:
    server: LiveServer
    http: penstock.Client
    raw: flight.FlightClient
    flight: FlightClient

    def values(self, queue: str) -> list[bytes]:
        """As a consumer of another protocol is given them, sorted."""
        found: list[bytes] = read(self.raw, queue, columns=["value"]).column("value").to_pylist()
        return sorted(found)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with (
        live_server(tmp_path_factory.mktemp("flight_writes"), [_FLIGHT]) as server,
        penstock.Client(f"http://127.0.0.1:{server.ports['http']}") as http,
        flight.connect(f"grpc://127.0.0.1:{server.ports['flight']}") as raw,
        FlightClient(f"grpc://127.0.0.1:{server.ports['flight']}") as client,
    ):
        yield Served(server, http, raw, client)


def rows(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"value": list(values)})


def refusal(call: Callable[[], object]) -> FlightRefused:
    with pytest.raises(FlightRefused) as refused:
        call()
    return refused.value


def command(**wanted: object) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(json.dumps(wanted).encode())


def test_appended_rows_are_messages_for_every_protocol(served: Served) -> None:
    served.http.create_queue("orders", {"partitions": 3})
    batch = pa.record_batch(
        {
            "headers": pa.array([[("a", "1"), ("b", "2")], None], pa.map_(pa.string(), pa.string())),
            "key": ["k", None],
            "value": pa.array([b"one", None], pa.large_binary()),
            "topic": pa.array(["shop/eu", None]).dictionary_encode(),
        }
    )
    placed = served.flight.append("orders", batch)
    assert sum(each.rows for each in placed) == 2
    [message] = [each for each in served.http.messages("orders").messages if each.key == "k"]
    assert (message.text, message.topic, message.headers) == ("one", "shop/eu", [("a", "1"), ("b", "2")])
    [at] = served.flight.append("orders", rows("x", "y"), partition=2)
    assert (at.partition, at.rows) == (2, 2)
    named = pa.record_batch({"value": ["a", "b", "c"], "partition": [0, 1, 0]})
    assert {each.partition: each.rows for each in served.flight.append("orders", named)} == {0: 2, 1: 1}


def test_a_key_goes_where_a_publish_puts_it(served: Served) -> None:
    served.http.create_queue("keyed", {"partitions": 7})
    keys = [f"k{number}" for number in range(50)]
    for key in keys:
        served.http.publish("keyed", "http", key=key)
    served.flight.append("keyed", pa.record_batch({"key": keys, "value": ["flight"] * 50}))
    wait_for_rows(served.raw, "keyed", 100)
    found = read(served.raw, "keyed", columns=["key", "partition"]).to_pylist()
    assert len({(row["key"], row["partition"]) for row in found}) == 50


def test_plain_pyarrow_is_answered_batch_by_batch(served: Served) -> None:
    """As docs/howto/arrow.md says it; each answer is waited for before more is sent."""
    served.http.create_queue("plain", {"partitions": 1})
    writer, answers = served.raw.do_put(command(queue="plain"), VALUE)
    with writer:
        for number in range(3):
            writer.write_batch(pa.record_batch([[b"%d" % number] * 2], schema=VALUE))
            said = json.loads(answers.read().to_pybytes())
            assert said == {"rows": 2, "placed": [[0, 2 * number, 2]]}
        writer.write_batch(pa.record_batch([pa.array([], pa.binary())], schema=VALUE))
        assert json.loads(answers.read().to_pybytes()) == {"rows": 0, "placed": []}
    wait_for_rows(served.raw, "plain", 6)
    assert served.values("plain") == [b"0", b"0", b"1", b"1", b"2", b"2"]


def test_batches_larger_than_a_frame_are_cut_and_come_whole(served: Served) -> None:
    served.http.create_queue("large", {"partitions": 4})
    count, size = 5000, 5000
    values = [f"{number:08}".ljust(size, ".") for number in range(count)]
    batch = pa.record_batch({"key": [value[:8] for value in values], "value": values})
    descriptor, done = command(queue="large"), 0
    writer, answers = served.raw.do_put(descriptor, batch.schema)
    with writer:
        writer.write_batch(batch)
        done = json.loads(answers.read().to_pybytes())["rows"]
    assert done == count
    with served.flight.stager("large", writer="w") as stager:
        stager.stage(batch)
    assert sum(each.rows for each in stager.ranges) == count
    assert sum(each.rows for each in served.flight.commit("large", 0, stager.ranges).placed) == count
    wait_for_rows(served.raw, "large", 2 * count)
    assert served.values("large") == sorted(value.encode() for value in values * 2)


def test_staged_rows_are_messages_once_and_only_after_the_commit(served: Served) -> None:
    served.http.create_queue("sink", {"partitions": 2})
    stagers = [served.flight.stager("sink", writer=f"task-{number}") for number in range(2)]
    for number, stager in enumerate(stagers):
        with stager:
            for part in range(6):
                stager.stage(rows(f"{number}.{part}"))
    ranges = [each for stager in stagers for each in stager.ranges]
    assert len(ranges) == 12
    assert served.http.messages("sink").messages == []
    done = served.flight.commit("query", 3, ranges)
    assert (sum(each.rows for each in done.placed), done.is_repeated) == (12, False)
    again = served.flight.commit("query", 3, ranges)
    assert (again.placed, again.is_repeated) == (done.placed, True)
    assert served.flight.committed("query") == [3]
    wait_for_rows(served.raw, "sink", 12)
    assert len(set(served.values("sink"))) == 12
    assert refusal(lambda: served.flight.commit("query", 4, ranges)).code is ErrorCode.STAGE_GONE
    with served.flight.stager("sink") as stager:
        stager.stage(rows("never"))
    assert b"penstock_broker_stages 1\n" in served.http.metrics()
    assert served.flight.abandon(stager.ranges) == 1
    assert served.flight.abandon(stager.ranges) == 0
    told = served.http.metrics()
    assert b"penstock_broker_stages 0\n" in told
    assert b'penstock_broker_epoch_commits_total{outcome="repeated"} 1\n' in told


def test_a_pipeline_belongs_to_one_query(served: Served) -> None:
    served.flight.commit("checkpoint-1", 0, [], pipeline="totals")
    refused = refusal(lambda: served.flight.commit("checkpoint-2", 0, [], pipeline="totals"))
    assert refused.code is ErrorCode.PIPELINE_KNOWN
    assert "reset the pipeline" in refused.reason
    assert not served.flight.commit("checkpoint-2", 0, [], pipeline="totals", reset=True).is_repeated


def test_a_refused_batch_ends_the_stream_and_says_why(served: Served) -> None:
    client = served.flight
    served.http.create_queue("small", {"partitions": 1, "limits": {"max_message_size": 10, "max_queue_depth": 3}})
    served.http.create_group("small", "g")
    assert refusal(lambda: client.append("small", rows("x" * 11))).code is ErrorCode.TOO_LARGE
    client.append("small", rows("1", "2"))
    full = refusal(lambda: client.append("small", rows("3", "4")))
    assert (full.code, full.is_passing) == (ErrorCode.QUEUE_FULL, True)
    with pytest.raises(flight.FlightUnavailableError, match="queue-full: queue 'small' is full"):
        writer, _ = served.raw.do_put(command(queue="small"), VALUE)
        writer.write_batch(pa.record_batch([[b"3", b"4"]], schema=VALUE))
        writer.close()
    writer, answers = served.raw.do_put(command(queue="small"), VALUE)
    writer.write_batch(pa.record_batch([[b"3", b"4"]], schema=VALUE))
    said = json.loads(answers.read().to_pybytes())  # while nothing more is sent
    assert said["error"]["code"] == "queue-full"
    with pytest.raises(flight.FlightUnavailableError):
        writer.close()
    with client.stager("small") as stager:
        stager.stage(rows("3"))
    assert refusal(lambda: client.append("small", rows("4"))).code is ErrorCode.QUEUE_FULL  # the last place is promised
    client.commit("small", 0, stager.ranges)
    for code, call in (
        (ErrorCode.INVALID_ARGUMENT, lambda: client.append("orders", pa.record_batch({"value": ["x"], "price": [1]}))),
        (ErrorCode.INVALID_ARGUMENT, lambda: client.append("orders", rows("x"), partition=99)),
        (ErrorCode.INVALID_ARGUMENT, lambda: client.commit("", 0, [])),
        (ErrorCode.TOO_LARGE, lambda: client.append("orders", pa.record_batch({"value": [bytes(20 << 20)]}))),
    ):
        assert refusal(call).code is code


def test_rows_that_come_with_a_commit_are_messages_once(served: Served) -> None:
    served.http.create_queue("brought", {"partitions": 1})
    with served.flight.stager("brought") as stager:
        stager.stage(rows("3"))
    for _ in range(2):
        done = served.flight.commit_rows("bringer", 0, "brought", [rows("1"), rows("2")], stager.ranges)
    assert done.is_repeated and [place.rows for place in done.placed] == [3]
    wait_for_rows(served.raw, "brought", 3)
    assert read(served.raw, "brought", columns=["value"]).column("value").to_pylist() == [b"1", b"2", b"3"]
    named = pa.record_batch({"value": ["x"], "partition": pa.array([0], pa.int32())})
    for refused in (
        refusal(lambda: served.flight.commit_rows("bringer", 1, "brought", [named])),
        refusal(lambda: served.flight.commit_rows("bringer", 1, "brought", [rows()])),
        refusal(lambda: served.flight.commit_rows("bringer", 1, "brought", [pa.record_batch({"v": [1]})])),
    ):
        assert refused.code is ErrorCode.INVALID_ARGUMENT
    assert (
        refusal(lambda: served.flight.commit_rows("bringer", 1, "nowhere", [rows("x")], create_queue=False)).code
        is ErrorCode.NO_SUCH_QUEUE
    )
    large = pa.record_batch({"value": [bytes(9 << 20)]})
    assert refusal(lambda: served.flight.commit_rows("bringer", 1, "brought", [large])).code is ErrorCode.TOO_LARGE
    for body in (b"{}", b"{}\n", b'{"queue": "brought", "commit": {}}\n'):
        with pytest.raises(pa.ArrowInvalid, match="invalid-argument"):
            list(served.raw.do_action(flight.Action("commit-rows", body)))
    assert served.flight.committed("bringer") == [0]


def test_what_is_no_action_or_command_is_refused_with_advice(served: Served) -> None:
    with pytest.raises(pa.ArrowInvalid, match="no action 'drop': there are commit, commit-rows, abandon, committed"):
        list(served.raw.do_action(flight.Action("drop", b"{}")))
    for body in (b"", b"{", b'{"query": 1}', b'{"query": "q", "epoch": 0, "ranges": [{}]}'):
        with pytest.raises(pa.ArrowInvalid, match="invalid-argument"):
            list(served.raw.do_action(flight.Action("commit", body)))
    assert {action.type for action in served.raw.list_actions()} == {
        *("commit", "commit-rows", "abandon", "committed", "release")
    }
    with pytest.raises(pa.ArrowInvalid, match="a command for DoPut looks like"):
        writer, _ = served.raw.do_put(command(queue="orders", action="drop"), VALUE)
        writer.close()


def test_a_stream_that_holds_garbage_stores_none_of_it_and_hurts_nobody(served: Served) -> None:
    served.http.create_queue("garbage", {"partitions": 1})
    places = pa.py_buffer(b"\0\0\0\0\x7f\xff\xff\x7f\3\0\0\0")
    lying = pa.Array.from_buffers(pa.binary(), 2, [None, places, pa.py_buffer(b"abc")])
    assert (
        refusal(lambda: served.flight.append("garbage", pa.record_batch([lying], names=["value"]))).code
        is ErrorCode.INVALID_ARGUMENT
    )
    with socket.create_connection(("127.0.0.1", served.server.ports["flight"])) as connection:
        connection.sendall(os.urandom(10_000))
    served.flight.append("garbage", rows("good"))
    wait_for_rows(served.raw, "garbage", 1)
    assert served.values("garbage") == [b"good"]


def test_a_client_that_vanishes_leaves_whole_batches_and_frees_its_stream(served: Served) -> None:
    served.http.create_queue("gone", {"partitions": 1})
    for number in range(12):  # more than a client may have open
        with flight.connect(f"grpc://127.0.0.1:{served.server.ports['flight']}") as client:
            writer, answers = client.do_put(command(queue="gone"), VALUE)
            writer.write_batch(pa.record_batch([[b"%d" % number] * 2], schema=VALUE))
            assert json.loads(answers.read().to_pybytes())["rows"] == 2
            del writer, answers
    wait_until(lambda: _appends(served.flight, "gone"), "a free stream")
    wait_for_rows(served.raw, "gone", 24)
    found = served.values("gone")
    assert all(found.count(value) % 2 == 0 for value in found if value != b"last")


def _appends(client: FlightClient, queue: str) -> bool:
    try:
        client.append(queue, rows("last"))
    except FlightRefused as refused:
        assert refused.code is ErrorCode.CLOSED
        return False
    return True


def test_many_streams_at_once_lose_nothing_and_keep_their_order(served: Served) -> None:
    served.http.create_queue("many", {"partitions": 3})
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            with FlightClient(f"grpc://127.0.0.1:{served.server.ports['flight']}") as client:
                batches = [rows(*(f"{number}.{at + row:04}" for row in range(10))) for at in range(0, 500, 10)]
                client.append("many", pa.Table.from_batches(batches))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    wait_for_rows(served.raw, "many", 3000)
    found = read(served.raw, "many", columns=["value"]).column("value").to_pylist()
    assert len(set(found)) == 3000
    for number in range(6):
        mine = [value for value in found if value.startswith(b"%d." % number)]
        assert mine == sorted(mine)


def test_a_listener_killed_while_rows_come_leaves_nothing_half_done(served: Served) -> None:
    served.http.create_queue("killed", {"partitions": 2})
    acknowledged: list[int] = []
    pid = served.server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for round_number in range(2):
        with pytest.raises(ConnectionLost):
            for number in range(100_000):
                mark = round_number * 100_000 + number
                if number == 20:
                    [child] = map(int, children.read_text().split())
                    threading.Timer(0.02, os.kill, [child, signal.SIGKILL]).start()
                served.flight.append(
                    "killed", pa.record_batch({"key": ["a", "b"], "value": [f"{mark}.a", f"{mark}.b"]})
                )
                acknowledged.append(mark)
        wait_until(lambda: _is_back(served.flight), "the listener is back")
    served.flight.append("killed", rows("last"))
    wait_until(lambda: b"last" in served.values("killed"), "rows")
    found = served.values("killed")
    assert {b"%d.%s" % (mark, key) for mark in acknowledged for key in (b"a", b"b")} <= set(found)
    marks = [value.partition(b".")[0] for value in found if value != b"last"]
    assert all(marks.count(mark) == 2 for mark in set(marks))  # each batch is there whole


def _is_back(client: FlightClient) -> bool:
    try:
        client.queues()
    except (ConnectionLost, FlightRefused):
        return False
    return True


def test_who_may_not_publish_may_neither_append_nor_stage_nor_commit(tmp_path: Path) -> None:
    said = f"{_PASSWORD}\n".encode()
    run_command("user", "add", "root", "--role", "admin", "--data", tmp_path / "data", given=said)
    with (
        live_server(tmp_path, [_FLIGHT], is_dev=False) as server,
        penstock.Client(f"http://127.0.0.1:{server.ports['http']}", username="root", password=_PASSWORD) as admin,
    ):
        url = f"grpc://127.0.0.1:{server.ports['flight']}"
        admin.create_queue("open")
        admin.create_queue("closed")
        admin.create_user("ann", _PASSWORD)
        rule = {"effect": "allow", "action": "publish", "pattern": "$queue/open", "user": "ann"}
        admin.create_rule(rule)
        with (
            FlightClient(url, user="ann", password=_PASSWORD) as ann,
            FlightClient(url, user="root", password=_PASSWORD) as root,
            FlightClient(url) as nobody,
        ):
            ann.append("open", rows("x"))
            for call in (
                lambda: ann.append("closed", rows("x")),
                lambda: ann.append("open", rows("x"), namespace="other"),
                lambda: ann.stager("closed").stage(rows("x")) or ann.append("closed", rows("x")),
            ):
                assert refusal(call).code is ErrorCode.NOT_AUTHORISED
            assert refusal(lambda: nobody.append("open", rows("x"))).code is ErrorCode.BAD_CREDENTIALS
            assert refusal(lambda: nobody.committed("q")).code is ErrorCode.BAD_CREDENTIALS
            with root.stager("closed") as stager:
                stager.stage(rows("secret"))
            assert refusal(lambda: ann.commit("q", 0, stager.ranges)).code is ErrorCode.NOT_AUTHORISED
            assert refusal(lambda: ann.abandon(stager.ranges)).code is ErrorCode.NOT_AUTHORISED
            with ann.stager("open") as mine:
                mine.stage(rows("y"))
            admin.delete_rule(rule)
            assert refusal(lambda: ann.commit("q", 0, mine.ranges)).code is ErrorCode.NOT_AUTHORISED
            assert root.commit("q", 0, [*stager.ranges, *mine.ranges]).placed
            assert refusal(lambda: ann.commit("q", 0, [])).code is ErrorCode.NOT_AUTHORISED
            admin.create_rule(rule)
            assert _PASSWORD not in server.said()


def test_nobody_decides_an_epoch_or_takes_a_name_of_another_login(tmp_path: Path) -> None:
    said = f"{_PASSWORD}\n".encode()
    run_command("user", "add", "root", "--role", "admin", "--data", tmp_path / "data", given=said)
    with (
        live_server(tmp_path, [_FLIGHT], is_dev=False) as server,
        penstock.Client(f"http://127.0.0.1:{server.ports['http']}", username="root", password=_PASSWORD) as admin,
    ):
        admin.create_queue("orders")
        admin.create_queue("own")
        for name, queue in (("ann", "orders"), ("bob", "orders"), ("eve", "own")):
            admin.create_user(name, _PASSWORD)
            admin.create_rule({"effect": "allow", "action": "publish", "pattern": f"$queue/{queue}", "user": name})
        with _logged_in(server, "ann") as ann, _logged_in(server, "bob") as bob, _logged_in(server, "eve") as eve:
            with ann.stager("orders", writer="job/0") as stager:
                stager.stage(rows("a"))
            for other, queue in ((eve, "own"), (bob, "orders")):  # not even before its first commit
                assert_not_theirs(lambda c=other, q=queue: c.commit("job", 0, [], queues=[q]))  # type: ignore[misc]
            with ann.stager("orders") as loose:
                loose.stage(rows("loose"))
            assert_not_theirs(lambda: bob.commit("bobs", 0, loose.ranges))
            assert_not_theirs(lambda: bob.abandon(loose.ranges))
            assert_not_theirs(lambda: bob.append("orders", rows("x")) and bob.stager("orders", writer="job/1"), bob)
            ann.commit("job", 0, stager.ranges, pipeline="totals")
            unnamed = refusal(lambda: ann.commit("job", 1, []))
            assert unnamed.code is ErrorCode.INVALID_ARGUMENT and "queues" in str(unnamed)
            assert refusal(lambda: eve.commit("eves", 0, [], queues=["orders"])).code is ErrorCode.NOT_AUTHORISED
            assert_not_theirs(lambda: bob.commit("job", 1, [], queues=["orders"]))
            assert_not_theirs(lambda: bob.committed("job"))
            for reset in (False, True):
                pipelined = {"pipeline": "totals", "reset": reset, "queues": ["orders"]}
                assert_not_theirs(lambda p=pipelined: bob.commit("bobs", 0, [], **p))  # type: ignore[misc]
            assert refusal(lambda: bob.release("job", pipeline="totals")).code is ErrorCode.NOT_AUTHORISED
    with (
        live_server(tmp_path, [_FLIGHT], is_dev=False) as server,
        _logged_in(server, "ann") as ann,
        _logged_in(server, "bob") as bob,
        _logged_in(server, "root") as root,
    ):
        assert_not_theirs(lambda: bob.commit("job", 1, [], queues=["orders"]))
        assert_not_theirs(lambda: bob.commit("bobs", 0, [], pipeline="totals", reset=True, queues=["orders"]))
        assert ann.committed("job") == [0]
        assert not ann.commit("job", 1, [], queues=["orders"], pipeline="totals").is_repeated
        root.release("job", pipeline="totals")
        assert not bob.commit("job", 2, [], queues=["orders"], pipeline="totals").is_repeated
        assert_not_theirs(lambda: ann.commit("job", 3, [], queues=["orders"]))
        assert not root.commit("job", 3, [], queues=["orders"]).is_repeated  # an admin may, and it stays bob's
        assert bob.committed("job") == [0, 1, 2, 3]


def _logged_in(server: LiveServer, name: str) -> FlightClient:
    return FlightClient(f"grpc://127.0.0.1:{server.ports['flight']}", user=name, password=_PASSWORD)


def assert_not_theirs(call: Callable[[], object], client: FlightClient | None = None) -> None:
    def done() -> object:
        made = call()
        if client is not None:  # a stream is refused once it is used
            assert isinstance(made, Stager)
            made.stage(rows("x"))
            made.finish()
        return made

    refused = refusal(done)
    assert refused.code is ErrorCode.NOT_AUTHORISED
    assert "belongs to 'ann'" in str(refused) or "belongs to 'bob'" in str(refused), refused
