"""`penstock.client.flight` against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import trustme
from tests.support.cli import penstock as run_command
from tests.support.faults import wait_until
from tests.support.live_server import LiveServer, live_server

import penstock
from penstock.client.errors import ConnectionLost
from penstock.client.flight import FlightClient, FlightRefused, Rows
from penstock.core.errors import ErrorCode, InvalidArgument

_FLIGHT = "listeners.flight.port=0"
_PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Served:
    server: LiveServer
    http: penstock.Client
    flight: FlightClient

    def rows(self, queue: str) -> int:
        """0 while the queue is not in the files yet."""
        try:
            return sum(one.rows for one in self.flight.partitions(queue))
        except FlightRefused as error:
            assert error.code is ErrorCode.NO_SUCH_QUEUE
            return 0

    def filled(self, queue: str) -> int:
        """A partition with rows."""
        return next(one.number for one in self.flight.partitions(queue) if one.rows)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with (
        live_server(tmp_path_factory.mktemp("flight_client"), [_FLIGHT]) as server,
        penstock.Client(f"http://127.0.0.1:{server.ports['http']}") as http,
        FlightClient(f"grpc://127.0.0.1:{server.ports['flight']}") as client,
    ):
        yield Served(server, http, client)


@pytest.fixture(scope="module")
def orders(served: Served) -> str:
    """1000 messages in one of two partitions: they come over one connection, without keys."""
    served.http.create_queue("orders", {"partitions": 2})
    for at in range(0, 1000, 100):
        served.http.publish_many("orders", [str(number) for number in range(at, at + 100)])
    wait_until(lambda: served.rows("orders") == 1000, "rows")
    return "orders"


def values(rows: Rows) -> list[bytes]:
    return [value for batch in rows for value in batch.column("value").to_pylist()]


def refusal(call: object) -> ErrorCode:
    assert callable(call)
    with pytest.raises(FlightRefused) as refused:
        call()
    return refused.value.code


def test_a_misspelt_queue_is_told_of_or_refused(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    rows = pa.table({"value": [b"v"]})
    with pytest.raises(FlightRefused, match="no queue 'ordres'") as refused:
        served.flight.append("ordres", rows, create_queue=False)
    assert refused.value.code is ErrorCode.NO_SUCH_QUEUE
    with pytest.raises(FlightRefused), served.flight.stager("ordres", create_queue=False) as stager:
        stager.stage(rows)
    with pytest.raises(FlightRefused):
        served.flight.append("ordres", pa.table({"value": [bytes((1 << 20) + 1)]}))
    assert "ordres" not in [queue.name for queue in served.http.queues()] and not caplog.records
    assert len(served.flight.append("ordres", rows)) == 1
    with served.flight.stager("ordres2") as stager:
        stager.stage(rows)
    said = [record.getMessage() for record in caplog.records if record.name == "penstock.client.flight"]
    assert said == [f"created queue {name!r}, which did not exist" for name in ("ordres", "ordres2")]
    served.flight.append("ordres", rows, create_queue=False)
    assert len(caplog.records) == 2
    for name in ("ordres", "ordres2"):
        served.http.delete_queue(name)


def test_queues_and_their_partitions_are_told(served: Served, orders: str) -> None:
    assert orders in served.flight.queues()
    assert served.flight.queues("ord*") == [orders]
    assert served.flight.queues("nothing*") == []
    partitions = served.flight.partitions(orders)
    assert [one.number for one in partitions] == [0, 1]
    assert all((one.start, one.end) == (0, one.rows) for one in partitions)
    assert len({one.log for one in partitions}) == 2


def test_every_row_of_a_range_is_read_in_order(served: Served, orders: str) -> None:
    found: list[bytes] = []
    for one in served.flight.partitions(orders):
        rows = served.flight.read(orders, one.number, one.start, one.end, ["value", "offset"], log=one.log)
        assert rows.schema.names == ["value", "offset"]
        found += values(rows)
        assert rows.skipped == []
    assert sorted(map(int, found)) == list(range(1000))
    some = list(served.flight.read(orders, served.filled(orders), 3, 6, ["offset"]))
    assert pa.Table.from_batches(some).column("offset").to_pylist() == [3, 4, 5]


def test_a_time_is_an_offset_in_each_partition(served: Served, orders: str) -> None:
    assert served.flight.offset_at_time(orders, 0) == {0: 0, 1: 0}
    ends = {one.number: one.end for one in served.flight.partitions(orders)}
    assert served.flight.offset_at_time(orders, 4_102_444_800_000) == ends


def test_refusals_have_the_servers_code_and_text(served: Served, orders: str) -> None:
    client = served.flight
    assert refusal(lambda: client.partitions("nowhere")) is ErrorCode.NO_SUCH_QUEUE
    assert refusal(lambda: list(client.read(orders, 0, 0, 1, ["ofset"]))) is ErrorCode.INVALID_ARGUMENT
    with pytest.raises(FlightRefused, match=r"^offset-out-of-range: partition 0 .* has started$"):
        list(client.read(orders, 0, 0, 1 << 40))


def test_a_queue_created_anew_is_told_from_the_one_before(served: Served) -> None:
    served.http.create_queue("reborn", {"partitions": 1})
    served.http.publish("reborn", "first life")
    wait_until(lambda: served.rows("reborn") == 1, "rows")
    [before] = served.flight.partitions("reborn")
    served.http.delete_queue("reborn")
    served.http.create_queue("reborn", {"partitions": 1})
    served.http.publish("reborn", "second life")
    wait_until(lambda: served.rows("reborn") == 1 and served.flight.partitions("reborn") != [before], "rows")
    assert values(served.flight.read("reborn", 0, 0, 1)) == [b"second life"]
    read = lambda: list(served.flight.read("reborn", 0, 0, 1, log=before.log))  # noqa: E731
    assert refusal(read) is ErrorCode.QUEUE_REPLACED


def test_rows_that_are_gone_are_an_error_or_counted(served: Served) -> None:
    served.http.create_queue("purged", {"partitions": 1})
    served.http.publish_many("purged", ["a", "b", "c"])
    wait_until(lambda: served.rows("purged") == 3, "rows")
    served.http.purge("purged")
    served.http.publish("purged", "d")
    wait_until(lambda: [(one.start, one.end) for one in served.flight.partitions("purged")] == [(3, 4)], "rows")
    assert refusal(lambda: list(served.flight.read("purged", 0, 1, 4))) is ErrorCode.TRIMMED
    rows = served.flight.read("purged", 0, 1, 4, skip_trimmed=True)
    assert values(rows) == [b"d"]
    assert (rows.skipped, rows.skipped_offsets) == ([(1, 3)], 2)
    rows = served.flight.read("purged", 0, 1, 3, skip_trimmed=True)
    assert (values(rows), rows.skipped) == ([], [(1, 3)])


def test_a_reader_may_stop_before_the_end(served: Served, orders: str) -> None:
    for _ in range(20):  # more than there may be streams of a client
        served.flight.read(orders, served.filled(orders), 0, 1).close()
    assert len(values(served.flight.read(orders, served.filled(orders), 0, 1))) == 1


def test_a_server_that_is_not_there_is_a_connection_lost() -> None:
    with FlightClient("grpc://127.0.0.1:1") as client, pytest.raises(ConnectionLost, match="cannot be reached"):
        client.queues()


@pytest.mark.parametrize(
    "wrong", [{"url": "http://localhost"}, {"token": "t", "user": "u", "password": "p"}, {"user": "u"}]
)
def test_an_address_or_login_that_cannot_be_is_refused_at_once(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        FlightClient(**{"url": "grpc://127.0.0.1:1", **wrong})


def test_logins_by_password_and_by_key_over_tls(tmp_path: Path) -> None:
    said = f"{_PASSWORD}\n".encode()
    run_command("user", "add", "root", "--role", "admin", "--data", tmp_path / "data", given=said)
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = [f"listeners.flight.tls.{name}={tmp_path / file}" for name, file in _TLS_FILES]
    with (
        live_server(tmp_path, [_FLIGHT, *tls], is_dev=False) as server,
        penstock.Client(f"http://127.0.0.1:{server.ports['http']}", username="root", password=_PASSWORD) as admin,
    ):
        admin.create_queue("orders")
        key = admin.create_key(roles=["read-only"]).key
        url, ca = f"grpc+tls://127.0.0.1:{server.ports['flight']}", tmp_path / "ca.pem"
        logins: list[dict[str, str]] = [{"user": "root", "password": _PASSWORD}, {"token": key}]
        for login in logins:
            with FlightClient(url, ca=ca, **login) as client:
                client.queues()
        with FlightClient(url, ca=ca, token="psk_000000000000_wrong") as client:
            assert refusal(client.queues) is ErrorCode.BAD_CREDENTIALS
        with FlightClient(url, token=key) as client, pytest.raises(ConnectionLost):
            client.queues()


_TLS_FILES = (("certificate", "cert.pem"), ("key", "key.pem"))
