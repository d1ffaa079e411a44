"""A server of Spark Connect in a JVM of its own, as an operator starts one."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from penstock.spark.java import java_home

_ROOT = Path(__file__).parents[2]
_NEEDED = ("grpc", "grpc_status", "google.rpc", "zstandard")
_START_S, _STOP_S = 120.0, 60.0
_STARTED = re.compile(r"Spark Connect server started at: 127\.0\.0\.1:(\d+)")
_SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def need_packages() -> None:
    """A test that says nothing where they are absent would be no proof that it works."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.fail(f"Spark Connect needs {', '.join(missing)}: pip install 'pyspark[connect]', as `make dev` does")


@contextmanager
def connect_server(place: Path) -> Iterator[str]:
    """Its address. It works in `place`, where relative paths of others lead nowhere."""
    need_packages()
    output, home = place / "connect.txt", Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    for name, value in {**_SETTINGS, "spark.local.dir": str(place)}.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (
        output.open("wb") as file,
        subprocess.Popen(command, stdout=file, stderr=file, cwd=place, env=_environment(home)) as process,
    ):
        try:
            yield f"sc://127.0.0.1:{_port(output, process)}"
        finally:
            process.terminate()
            process.wait(_STOP_S)


def _environment(home: Path) -> dict[str, str]:
    """What its workers inherit: this Python, with this tree."""
    return {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(_ROOT / "src"),
    }


def _port(output: Path, process: subprocess.Popen[bytes]) -> int:
    end = time.monotonic() + _START_S
    while (found := _STARTED.search(said := output.read_text(errors="replace"))) is None:
        assert process.poll() is None and time.monotonic() < end, said[-3000:]
        time.sleep(0.05)
    return int(found[1])
