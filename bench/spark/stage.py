"""What benchmarks of Spark stand on: a session, and a server with its Arrow Flight listener."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from bench.mqtt.servers import Server
from penstock.spark.session import session_builder

_ROOT = Path(__file__).parents[2]


@contextmanager
def spark_session(directory: Path, master: str = "local[2]") -> Iterator[SparkSession]:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])
    session = (
        session_builder(master, local_checkpoints=True)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.local.dir", str(directory / "spark"))
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def served(data: Path, place: Path) -> Iterator[dict[str, str]]:
    """A server on that data, as people start one: its addresses, of `http`, `flight` and `mqtt`."""
    ready = place / "ready.json"
    # It has a working directory of its own, where a relative path to the source would be another one, or none.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])
    command = [sys.executable, "-m", "penstock.cli.main", "--log-level", "error", "serve", "--dev"]
    for listener in ("mqtt", "mqtt_ws", "http", "flight"):
        command += ["--set", f"listeners.{listener}.port=0"]
    server = Server("penstock", [*command, "--data", str(data), "--ready-file", str(ready)], place)
    try:
        server.wait(ready.exists)
        ports = {name: facts["port"] for name, facts in json.loads(ready.read_text())["listeners"].items()}
        schemes = {"http": "http", "flight": "grpc", "mqtt": "mqtt"}
        yield {name: f"{scheme}://127.0.0.1:{ports[name]}" for name, scheme in schemes.items()}
    finally:
        server.stop()
