"""`penstock pipeline replay` through a server: the command is killed anywhere, and each message is there once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import flight
from tests.support.cli import ENVIRONMENT
from tests.support.cli import penstock as run_command
from tests.support.flight import read, wait_for_rows
from tests.support.live_server import LiveServer, live_server

import penstock
from penstock.cli.main import run
from penstock.jobs import replay_plan

_KILLED = 9
# Ends the process as kill -9 would: while rows of an epoch are staged, before its commit, or before that is noted.
_DYING = """
import os, sys
from penstock.cli.pipeline import replay_sinks
from penstock.client.flight import FlightClient
from penstock.jobs import replay_plan
from penstock.cli.main import run

plan = replay_plan.plan_pieces
replay_plan.plan_pieces = lambda table, span: plan(table, span, 100)
where, epoch = sys.argv[1], int(sys.argv[2])
commit, record = FlightClient.commit, replay_plan.ReplayFile.record
stage = replay_sinks.FlightStaging.__call__

def dying_commit(self, query, number, ranges):
    if (where, epoch) == ("commit", number):
        os._exit(9)
    return commit(self, query, number, ranges)

def dying_record(self, number, rows):
    if (where, epoch) == ("record", number):
        os._exit(9)
    return record(self, number, rows)

def dying_stage(self, query, number, batches):
    def some():
        for batch in batches:
            yield batch
            if (where, epoch) == ("stage", number):
                os._exit(9)
    return stage(self, query, number, some())

FlightClient.commit, replay_plan.ReplayFile.record = dying_commit, dying_record
replay_sinks.FlightStaging.__call__ = dying_stage
sys.exit(run(sys.argv[3:]))
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """500 orders in two partitions."""
    with live_server(tmp_path_factory.mktemp("replay"), ["listeners.flight.port=0"]) as server:
        with penstock.Client(f"http://127.0.0.1:{server.ports['http']}") as client:
            client.create_queue("orders", {"partitions": 2})
            client.publish_many("orders", [{"id": number} for number in range(500)])
        with flight.connect(_url(server)) as flights:
            wait_for_rows(flights, "orders", 500)
        yield server


def _url(server: LiveServer) -> str:
    return f"grpc://127.0.0.1:{server.ports['flight']}"


def values(server: LiveServer, queue: str, rows: int) -> Counter[bytes]:
    with flight.connect(_url(server)) as flights:
        wait_for_rows(flights, queue, rows)
        return Counter(read(flights, queue, columns=["value"]).column("value").to_pylist())


def test_a_server_is_read_and_written(served: LiveServer, tmp_path: Path) -> None:
    query = """select key, value, headers, "offset" from orders where (value::json->>'id')::int < 7"""
    arguments = ["--from", "orders", "--to", "few", "--url", _url(served), "--checkpoint", str(tmp_path / "few")]
    run_command("pipeline", "replay", *arguments, "--sql", query)
    with flight.connect(_url(served)) as flights:
        wait_for_rows(flights, "few", 7)
        found = read(flights, "few", columns=["value", "headers"]).to_pylist()
    assert sorted(row["value"] for row in found) == [b'{"id":%d}' % number for number in range(7)]
    places = [pair["value"] for row in found for pair in row["headers"] if pair["key"] == "replayed-from"]
    assert len(places) == len(set(places)) == 7 and all(place.startswith(b"orders:") for place in places)


@pytest.mark.faults
@pytest.mark.parametrize("where", ["commit", "record"])
def test_processes_stage_by_themselves_and_each_message_is_there_once(
    served: LiveServer, tmp_path: Path, where: str
) -> None:
    queue = f"spread-{where}"
    arguments = ["pipeline", "replay", "--url", _url(served), "--from", "orders", "--to", queue, "--processes", "2"]
    arguments += ["--checkpoint", str(tmp_path / "checkpoint")]
    command = [sys.executable, "-c", _DYING, where, "2", *arguments]
    died = subprocess.run(command, env=ENVIRONMENT, timeout=120, capture_output=True)
    assert died.returncode == _KILLED, died.stderr[-2000:]
    assert b"continuing: 2 of " in run_command(*arguments).stderr
    assert values(served, queue, 500) == values(served, "orders", 500)


@pytest.mark.faults
@pytest.mark.parametrize(("where", "epoch"), [("stage", 0), ("stage", 3), ("commit", 2), ("record", 0), ("record", 4)])
def test_killed_anywhere_and_run_again_each_message_is_there_once(
    served: LiveServer, tmp_path: Path, where: str, epoch: int
) -> None:
    queue = f"again-{where}-{epoch}"
    arguments = ["pipeline", "replay", "--url", _url(served), "--from", "orders", "--to", queue]
    arguments += ["--checkpoint", str(tmp_path / "checkpoint")]
    command = [sys.executable, "-c", _DYING, where, str(epoch), *arguments]
    died = subprocess.run(command, env=ENVIRONMENT, timeout=120, capture_output=True)
    assert died.returncode == _KILLED, died.stderr[-2000:]
    run_command(*arguments)
    assert values(served, queue, 500) == values(served, "orders", 500)
    assert not (tmp_path / "checkpoint").exists()


def test_where_the_queue_is_full_processes_write_what_it_takes_and_go_on_later(
    served: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = replay_plan.plan_pieces
    monkeypatch.setattr(replay_plan, "plan_pieces", lambda table, span: plan(table, span, 100))
    arguments = ["pipeline", "replay", "--url", _url(served), "--from", "orders", "--to", "full", "--processes", "2"]
    arguments += ["--checkpoint", str(tmp_path / "checkpoint"), "--wait", "0s"]
    with penstock.Client(f"http://127.0.0.1:{served.ports['http']}") as client:
        client.create_queue("full", {"limits": {"max_queue_depth": 350}})
        client.create_group("full", "readers")
        assert run(arguments) == 1
        assert "full" in capfd.readouterr().err
        assert client.queue("full").messages == 300
        client.update_queue("full", {"limits": {"max_queue_depth": 1000}})
    assert run(arguments) == 0
    assert values(served, "full", 500) == values(served, "orders", 500)


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    arguments = ["--from", "orders", "--to", "b", "--url", "grpc://127.0.0.1:9", "--checkpoint", str(tmp_path / "b")]
    assert b"cannot be reached" in run_command("pipeline", "replay", *arguments, expected=4).stderr
    assert not (tmp_path / "b").exists()
