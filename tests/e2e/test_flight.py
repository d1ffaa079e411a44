"""Arrow Flight against a real server, with the clients that people have."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest
import trustme
from pyarrow import flight
from tests.support.cli import penstock as run_command
from tests.support.flight import bearer, descriptor, read, ticket, wait_for_rows
from tests.support.live_server import LiveServer, live_server

import penstock

_FLIGHT = "listeners.flight.port=0"
_PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Served:
    server: LiveServer
    http: penstock.Client
    flight: flight.FlightClient


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with (
        live_server(tmp_path_factory.mktemp("flight"), [_FLIGHT]) as server,
        penstock.Client(f"http://127.0.0.1:{server.ports['http']}") as http,
        flight.connect(f"grpc://127.0.0.1:{server.ports['flight']}") as client,
    ):
        yield Served(server, http, client)


@pytest.fixture(scope="module")
def orders(served: Served) -> str:
    """1000 messages in two partitions."""
    served.http.create_queue("orders", {"partitions": 2})
    values = [{"id": number, "total": number / 2} for number in range(1000)]
    for at in range(0, 1000, 100):
        served.http.publish_many("orders", values[at : at + 100])
    served.http.publish("orders", "last", key="k", headers={"a": "1"})
    wait_for_rows(served.flight, "orders", 1001)
    return "orders"


def test_a_queue_is_a_table_with_an_endpoint_for_each_partition(served: Served, orders: str) -> None:
    info = served.flight.get_flight_info(flight.FlightDescriptor.for_path(orders))
    assert len(info.endpoints) == 2
    assert info.total_records == 1001
    assert info.schema.names[:3] == ["key", "value", "topic"]
    assert served.flight.get_schema(descriptor(orders, columns=["offset"])).schema.names == ["offset"]
    table = read(served.flight, orders)
    assert table.num_rows == 1001
    assert set(table.column("queue").to_pylist()) == {orders}
    [last] = [row for row in read(served.flight, orders, columns=["key", "value", "headers"]).to_pylist() if row["key"]]
    assert last == {"key": b"k", "value": b"last", "headers": [{"key": "a", "value": b"1"}]}


def test_ranges_of_offsets_and_times_are_read_and_nothing_past_the_end(served: Served, orders: str) -> None:
    # Without keys the messages of a connection are in one partition, whichever that is.
    partitions = read(served.flight, orders, columns=["partition"]).column("partition").to_pylist()
    filled = max(set(partitions), key=partitions.count)
    some = read(served.flight, orders, partition=filled, start_offset=5, end_offset=9, columns=["offset"])
    assert some.column("offset").to_pylist() == [5, 6, 7, 8]
    whole = read(served.flight, orders, end_offset=1 << 40)
    assert whole.num_rows == 1001
    assert read(served.flight, orders, start_time="2100-01-01T00:00:00Z").num_rows == 0
    assert read(served.flight, orders, start_time=0, end_time="2100-01-01T00:00:00").num_rows == 1001
    with pytest.raises(pa.ArrowInvalid, match="can be read up to offset"):
        served.flight.do_get(ticket(orders, stop=1 << 40)).read_all()


def test_tables_are_listed_by_pattern(served: Served, orders: str) -> None:
    served.http.create_queue("orders/eu")
    names = [info.descriptor.path for info in served.flight.list_flights(b"order*")]
    assert [b"orders"] in names
    assert [b"orders"] in [info.descriptor.path for info in served.flight.list_flights()]
    assert list(served.flight.list_flights(b"nothing*")) == []


def test_duckdb_asks_a_queue_in_sql(served: Served, orders: str) -> None:
    rows = read(served.flight, orders, columns=["value", "partition"])  # noqa: F841  # DuckDB finds it by its name
    query = """
        select count(*), sum(cast(json_extract(decode(value), '$.total') as double))
        from rows where starts_with(decode(value), '{')
    """
    with duckdb.connect() as database:
        found = database.execute(query).fetchone()
    assert found == (1000, sum(number / 2 for number in range(1000)))


def test_polars_takes_the_batches_as_they_are(served: Served, orders: str) -> None:
    frame = polars.from_arrow(read(served.flight, orders, columns=["offset", "partition", "timestamp", "topic"]))
    assert isinstance(frame, polars.DataFrame)
    assert frame.group_by("partition").len().get_column("len").sum() == 1001
    assert frame.schema["timestamp"] == polars.Datetime("us", "UTC")


def test_rows_appear_while_they_are_written_and_none_twice(served: Served) -> None:
    served.http.create_queue("busy", {"partitions": 1})
    wait_for_rows(served.flight, "busy", 0)
    done = threading.Event()

    def write() -> None:
        for at in range(0, 2000, 20):
            served.http.publish_many("busy", [str(number) for number in range(at, at + 20)])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[bytes] = []
    end = time.monotonic() + 60
    while len(seen) < 2000 and time.monotonic() < end:
        seen += read(served.flight, "busy", start_offset=len(seen), columns=["value"]).column("value").to_pylist()
    writer.join()
    assert done.is_set()
    assert seen == [b"%d" % number for number in range(2000)]


def test_errors_have_flights_own_codes_and_say_what_to_do(served: Served, orders: str) -> None:
    client = served.flight
    with pytest.raises(pa.ArrowKeyError, match="no queue 'nowhere'"):
        read(client, "nowhere")
    with pytest.raises(pa.ArrowInvalid, match="did you mean offset"):
        read(client, orders, columns=["ofset"])
    with pytest.raises(pa.ArrowInvalid, match="has no partition 7"):
        read(client, orders, partition=7)
    with pytest.raises(pa.ArrowInvalid, match="a command looks like"):
        client.get_flight_info(flight.FlightDescriptor.for_command(b"select"))
    with pytest.raises(pa.ArrowInvalid, match="cannot both be given"):
        read(client, orders, start_time=1, start_offset=1)
    with pytest.raises(pa.ArrowInvalid, match="is over 65536"):
        client.do_get(flight.Ticket(b" " * 70_000)).read_all()
    with pytest.raises(pa.ArrowInvalid, match="no column 'price' can be stored") as refused:
        writer, _ = client.do_put(flight.FlightDescriptor.for_path(orders), pa.schema([("price", pa.int64())]))
        writer.close()
    assert "service.py" not in str(refused.value)


def test_a_listener_that_dies_is_started_again_on_its_port(served: Served, orders: str) -> None:
    pid = served.server.process.pid
    [child] = [int(number) for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    os.kill(child, signal.SIGKILL)
    end = time.monotonic() + 60
    while True:
        try:
            assert read(served.flight, orders).num_rows == 1001
            break
        except (flight.FlightUnavailableError, flight.FlightServerError):
            assert time.monotonic() < end
            time.sleep(0.1)
    assert "the listener flight ended" in served.server.said()


def test_a_port_in_use_stops_the_start(served: Served, tmp_path: Path) -> None:
    ran = run_command(
        *("serve", "--dev", "--data", tmp_path / "data"),
        *("--set", "listeners.mqtt.port=0", "--set", "listeners.mqtt_ws.port=0", "--set", "listeners.http.port=0"),
        *("--set", f"listeners.flight.port={served.server.ports['flight']}"),
        expected=1,
    )
    assert b"listener flight cannot listen" in ran.stderr


def test_logins_and_rules_count_as_everywhere(tmp_path: Path) -> None:
    said = f"{_PASSWORD}\n".encode()
    run_command("user", "add", "root", "--role", "admin", "--data", tmp_path / "data", given=said)
    settings = [_FLIGHT, "listeners.flight.max_streams_per_client=1"]
    with (
        live_server(tmp_path, settings, is_dev=False) as server,
        penstock.Client(f"http://127.0.0.1:{server.ports['http']}", username="root", password=_PASSWORD) as admin,
        flight.connect(f"grpc://127.0.0.1:{server.ports['flight']}") as client,
    ):
        for queue in ("open", "closed"):
            admin.create_queue(queue, {"partitions": 1})
            admin.publish(queue, "value")
        admin.create_user("ann", _PASSWORD)
        admin.create_rule({"effect": "allow", "action": "consume", "pattern": "open", "user": "ann"})
        key = bearer(admin.create_key(roles=["read-only"]).key)
        wait_for_rows(client, "open", 1, key)
        wait_for_rows(client, "closed", 1, key)
        ann = flight.FlightCallOptions(headers=[client.authenticate_basic_token("ann", _PASSWORD)])
        assert read(client, "open", ann).column("value").to_pylist() == [b"value"]
        assert [info.descriptor.path for info in client.list_flights(b"", ann)] == [[b"open"]]
        assert len(list(client.list_flights(b"", key))) == 2
        with pytest.raises(flight.FlightUnauthorizedError, match="ann may not read queue 'closed'"):
            read(client, "closed", ann)
        with pytest.raises(flight.FlightUnauthorizedError, match="ann may not read"):
            client.do_get(ticket("closed"), ann).read_all()
        with pytest.raises(flight.FlightUnauthorizedError, match="belongs to the namespace"):
            read(client, "open", ann, namespace="elsewhere")
        with pytest.raises(flight.FlightUnauthenticatedError, match="needs the header authorization"):
            read(client, "open")
        with pytest.raises(flight.FlightUnauthenticatedError, match="the API key is wrong"):
            read(client, "open", bearer("psk_000000000000_wrong"))
        wrong = flight.FlightCallOptions(headers=[client.authenticate_basic_token("ann", "wrong")])
        with pytest.raises(flight.FlightUnauthenticatedError, match="password is wrong"):
            read(client, "open", wrong)
        admin.delete_user("ann")
        with pytest.raises(flight.FlightUnauthenticatedError):
            read(client, "open", ann)
        assert _PASSWORD not in server.said()


def test_tls_keeps_what_is_read_from_others(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    settings = [
        _FLIGHT,
        f"listeners.flight.tls.certificate={tmp_path / 'cert.pem'}",
        f"listeners.flight.tls.key={tmp_path / 'key.pem'}",
    ]
    with live_server(tmp_path, settings) as server:
        url = f"grpc+tls://127.0.0.1:{server.ports['flight']}"
        with flight.connect(url, tls_root_certs=authority.cert_pem.bytes()) as client:
            assert list(client.list_flights()) == []
        with (
            flight.connect(f"grpc://127.0.0.1:{server.ports['flight']}") as plain,
            pytest.raises(flight.FlightUnavailableError),
        ):
            list(plain.list_flights())
