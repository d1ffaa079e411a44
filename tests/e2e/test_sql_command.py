"""`penstock sql` as people type it: beside a server, over Flight, in every format."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pyarrow import flight
from tests.support.cli import ENVIRONMENT
from tests.support.cli import penstock as run_command
from tests.support.flight import wait_for_rows
from tests.support.live_server import LiveServer, live_server

import penstock


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """1,500 orders in two partitions, with totals."""
    with live_server(tmp_path_factory.mktemp("sql"), ["listeners.flight.port=0"]) as server:
        with penstock.Client(f"http://127.0.0.1:{server.ports['http']}") as client:
            client.create_queue("orders", {"partitions": 2})
            for first in range(0, 1500, 500):
                client.publish_many("orders", [{"id": number, "total": 1.5} for number in range(first, first + 500)])
        with flight.connect(f"grpc://127.0.0.1:{server.ports['flight']}") as flights:
            wait_for_rows(flights, "orders", 1500)
        yield server


def ask(server: LiveServer, query: str, *more: str, expected: int = 0) -> bytes:
    return run_command("sql", query, "--data", server.output.parent / "data", *more, expected=expected).stdout


def test_the_directory_of_a_running_server_answers(served: LiveServer) -> None:
    query = "select count(*) as orders, sum((value::json->>'total')::double) as total from orders"
    assert ask(served, query).decode().split() == ["orders", "total", "1500", "2250.0"]


def test_a_server_answers_over_flight_by_ranges(served: LiveServer) -> None:
    url = f"grpc://127.0.0.1:{served.ports['flight']}"
    counted = "select partition from orders group by 1 order by count(*) desc limit 1"
    filled = int(run_command("sql", counted, "--url", url, "-o", "csv").stdout.split()[1])
    query = f"""select "offset" from orders where partition = {filled} and "offset" < 3
               and timestamp > now() - interval 1 day order by 1"""
    assert run_command("sql", query, "--url", url, "-o", "csv").stdout == b"offset\n0\n1\n2\n"
    refused = run_command("sql", "select * from ordrs", "--url", url, expected=1)
    assert b"no queue 'ordrs': did you mean orders?" in refused.stderr


def test_every_format_has_the_same_rows(served: LiveServer) -> None:
    query = "select 1 as a, null as b, 'x' as c, 2 as a, [1, 2] as d"
    names = ["a", "b", "c", "a_2", "d"]
    expected = dict(zip(names, [1, None, "x", 2, [1, 2]], strict=True))
    assert json.loads(ask(served, query, "-o", "json")) == expected
    assert yaml.safe_load(ask(served, query, "-o", "yaml")) == expected
    assert list(csv.reader(io.StringIO(ask(served, query, "-o", "csv").decode()))) == [
        names,
        ["1", "", "x", "2", "[1,2]"],
    ]
    assert ask(served, query).decode().split() == [*names, "1", "null", "x", "2", "[1,2]"]


def test_a_table_is_cut_aloud_and_what_programs_read_is_not(served: LiveServer) -> None:
    shown = run_command("sql", "select value from orders", "--data", served.output.parent / "data")
    assert len(shown.stdout.splitlines()) == 1001
    assert b"first 1000 rows" in shown.stderr
    assert len(ask(served, "select value from orders", "-o", "json").splitlines()) == 1500
    assert len(ask(served, "select value from orders", "-n", "7", "-o", "json").splitlines()) == 7


def test_a_query_is_read_from_standard_input(served: LiveServer) -> None:
    ran = run_command("sql", "-", "--data", served.output.parent / "data", "-o", "csv", given=b"select 42 as answer")
    assert ran.stdout == b"answer\n42\n"


def test_rows_are_copied_to_parquet(served: LiveServer, tmp_path: Path) -> None:
    ask(served, f"copy (select key, value from orders) to '{tmp_path / 'orders.parquet'}'")
    assert ask(served, f"select count(*) as n from '{tmp_path / 'orders.parquet'}'", "-o", "csv") == b"n\n1500\n"


def test_without_a_place_it_says_how_to_name_one() -> None:
    assert b"--data DIR, or --url" in run_command("sql", "select 1", expected=2).stderr


def test_without_duckdb_it_says_what_to_install(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['duckdb'] = None; from penstock.cli.main import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", hide, "sql", "select 1", "--data", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, timeout=60, env=ENVIRONMENT)
    assert ran.returncode == 1
    assert ran.stderr.endswith(b"pip install 'penstock[sql]'\n")
