"""What Spark's workers do between tasks."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

# As pyspark.daemon does: one task, a look for garbage, the next task.
_WORKER = """
import gc
from penstock.spark.source import PenstockSource
from pyspark.sql.types import BinaryType, StructField, StructType

schema = StructType([StructField("value", BinaryType())])
for _ in range(3):
    options = {"url": "grpc://127.0.0.1:1", "queue": "alerts"}
    PenstockSource(options).streamWriter(schema, False)
    gc.collect()
print(gc.get_freeze_count(), len(gc.get_objects()))
"""


def _run(reused: str) -> tuple[int, int]:
    ran = subprocess.run(
        [sys.executable, "-c", _WORKER], env={"SPARK_REUSE_WORKER": reused}, capture_output=True, text=True, check=True
    )
    frozen, looked_at = map(int, ran.stdout.split())
    return frozen, looked_at


def test_a_worker_that_is_used_again_does_not_look_through_its_modules_after_every_task() -> None:
    frozen, looked_at = _run("1")
    assert frozen > 10 * looked_at


def test_a_process_that_is_none_of_these_is_left_alone() -> None:
    frozen, looked_at = _run("")
    assert frozen < looked_at


@pytest.fixture
def short_directory() -> Iterator[str]:
    """For a socket, whose path has at most a hundred characters."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        yield place


# What Spark's processes for planning do that had a source of ours: the module of the worker, as the daemon calls it.
_PLANNER = """
import penstock.spark.source

def main(infile, outfile):
    infile.read(1)
    {how}
"""


def _planner(place: Path, how: str) -> dict[str, str]:
    """Where a daemon finds it, as pyspark_planner."""
    (place / "pyspark_planner.py").write_text(_PLANNER.format(how=how))
    return {"PYTHONPATH": os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])}


def test_a_worker_that_was_let_go_ends(short_directory: str) -> None:
    """And does not take what it finds in a closed socket for the next task, over and over."""
    assert _said_when_let_go(short_directory, "penstock.spark.daemon", "pyspark.worker") == b""


def test_a_process_that_planned_ends_without_a_word(short_directory: str, tmp_path: Path) -> None:
    """Its daemon is Spark's own."""
    settings = _planner(tmp_path, "outfile.write(b'said too late')")
    assert _said_when_let_go(short_directory, "pyspark.daemon", "pyspark_planner", settings) == b""


def test_other_errors_of_such_a_process_are_told(short_directory: str, tmp_path: Path) -> None:
    settings = _planner(tmp_path, "raise ValueError('that is wrong')")
    said = _said_when_let_go(short_directory, "pyspark.daemon", "pyspark_planner", settings)
    assert b"ValueError: that is wrong" in said


def _said_when_let_go(directory: str, module: str, worker_module: str, more: Mapping[str, str] = {}) -> bytes:
    """What a daemon and its worker print when Spark closes the socket; the worker must end."""
    settings = {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": directory,
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
        "SPARK_REUSE_WORKER": "1",
        **more,
    }
    with subprocess.Popen(
        [sys.executable, "-m", module, worker_module],
        env={**os.environ, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as daemon:
        assert daemon.stdin is not None and daemon.stdout is not None and daemon.stderr is not None
        place = daemon.stdout.read(*struct.unpack("!i", daemon.stdout.read(4)))
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(place)
            worker = struct.unpack("!i", spark.recv(4))[0]
        deadline = time.monotonic() + 60
        while (is_there := Path(f"/proc/{worker}").exists()) and time.monotonic() < deadline:
            time.sleep(0.05)
        daemon.stdin.close()
        assert not is_there
        return daemon.stderr.read()
