"""Queues, jobs and declared pipelines through Spark Connect: a real server, and clients in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.connect_server import connect_server, need_packages
from tests.support.cli import ENVIRONMENT
from tests.support.mortal_server import MortalServer, mortal_server
from tests.support.numbered import until_end

from penstock.client.errors import ConnectionLost
from penstock.client.flight import FlightClient
from penstock.core.errors import InvalidArgument
from penstock.spark import connect

ROWS = 1000
PIPELINE = """\
name: doubling
broker: {{path: {data}, url: "{flight}"}}
sources:
  numbers: {{queue: numbers, format: text}}
steps:
  doubled: {{python: "steps_of_doubling.py:doubled", from: numbers}}
rules:
  small: {{of: doubled, expect: cast(value as int) < {limit}}}
sinks:
  queue: {{from: doubled, queue: doubles, value: value}}
checkpoints: {place}/checkpoints-{limit}
"""
STEPS = """\
from pyspark.sql.functions import udf
from factor_of_doubling import FACTOR


def times(text):
    return str(int(text) * FACTOR)


def doubled(frame):
    return frame.select(udf(times)("value").alias("value"))
"""


@dataclass(frozen=True)
class Connected:
    remote: str
    broker: MortalServer

    def values(self, queue: str) -> list[int]:
        with FlightClient(self.broker.flight_url) as client:
            found: list[bytes] = []
            for one in client.partitions(queue):
                for batch in client.read(queue, one.number, one.start, one.end, ["value"]):
                    found += batch.column("value").to_pylist()
            return sorted(map(int, found))


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connected]:
    """A broker with a thousand numbers in two partitions, and a server of Spark Connect."""
    place = tmp_path_factory.mktemp("connect")
    with mortal_server(tmp_path_factory.mktemp("broker")) as broker, connect_server(place) as remote:
        for queue in ("numbers", "copies", "doubles"):
            broker.http.create_queue(queue, {"partitions": 2})
        with FlightClient(broker.flight_url) as client:
            values = pa.array(range(ROWS)).cast(pa.string())
            client.append("numbers", pa.record_batch({"key": values, "value": values}))
        until_end(broker.data, "numbers", ROWS)
        yield Connected(remote, broker)


def command(*arguments: str, cwd: Path, expected: int = 0) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == expected, (ran.returncode, ran.stdout[-2000:], ran.stderr[-4000:])
    return ran


def penstock_in(cwd: Path, *arguments: str, expected: int = 0) -> subprocess.CompletedProcess[str]:
    return command("penstock.cli.main", *arguments, cwd=cwd, expected=expected)


def test_a_session_reads_a_table_and_copies_a_queue_exactly_once(connected: Connected, tmp_path: Path) -> None:
    broker, root = connected.broker, Path(__file__).parents[2]
    places = [str(broker.data), broker.flight_url, str(tmp_path / "checkpoint")]
    found = json.loads(command("tests.spark.connect_queries", connected.remote, *places, cwd=root).stdout)
    assert found["rows"] == ROWS and 0 < found["of_one_partition"] < ROWS
    assert found["streamed"] == [ROWS, 0]
    until_end(broker.data, "copies", ROWS)
    assert connected.values("copies") == list(range(ROWS))


def test_jobs_find_directories_that_are_named_from_here(connected: Connected, tmp_path: Path) -> None:
    data, remote = os.path.relpath(connected.broker.data, tmp_path), ["--remote", connected.remote]
    audited = penstock_in(tmp_path, "pipeline", "audit", "--data", data, *remote)
    assert "verdict: ok" in audited.stdout
    penstock_in(tmp_path, "pipeline", "report", "--data", data, "--queue", "numbers", "--to", "page.html", *remote)
    assert f"{ROWS:,}" in (tmp_path / "page.html").read_text()


def test_a_declared_pipeline_takes_its_functions_along(connected: Connected, tmp_path: Path) -> None:
    (tmp_path / "steps_of_doubling.py").write_text(STEPS)
    (tmp_path / "factor_of_doubling.py").write_text("FACTOR = 2\n")
    places = {"data": connected.broker.data, "flight": connected.broker.flight_url, "place": tmp_path}
    (tmp_path / "good.yaml").write_text(PIPELINE.format(limit=10 * ROWS, **places))
    ran = penstock_in(tmp_path, "pipeline", "run", "good.yaml", "--once", "--remote", connected.remote)
    assert f"micro-batch written pipeline=doubling sink=queue batch=0 rows={ROWS}" in ran.stderr
    until_end(connected.broker.data, "doubles", ROWS)
    assert connected.values("doubles") == list(range(0, 2 * ROWS, 2))
    (tmp_path / "bad.yaml").write_text(PIPELINE.format(limit=ROWS, **places))
    reset = ["--once", "--reset", "--remote", connected.remote]
    said = penstock_in(tmp_path, "pipeline", "run", "bad.yaml", *reset, expected=1).stderr
    assert "sink queue failed: " in said and "rule small of doubled does not hold for a row" in said
    assert "Traceback" not in said


def test_a_server_that_is_not_there_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    need_packages()
    monkeypatch.setattr(connect, "_FIRST_ANSWER_S", 0.2)
    with pytest.raises(ConnectionLost, match=r"no Spark Connect server answers at sc://127\.0\.0\.1:1: check"):
        connect.remote_session("sc://127.0.0.1:1", {})
    with pytest.raises(InvalidArgument, match="is not the address of a Spark Connect server"):
        connect.remote_session("http://127.0.0.1:1", {})
