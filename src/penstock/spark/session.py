"""A Spark session whose workers find Java, this Python and Penstock."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from penstock.spark.java import java_home

# Of a session, wherever it is: filters reach the indexes, and times mean the same everywhere.
QUERY_SETTINGS = {"spark.sql.python.filterPushdown.enabled": "true", "spark.sql.session.timeZone": "UTC"}
# Of the processes of Spark: batches go to and from Python by Unix sockets instead of TCP.
_PROCESS_SETTINGS = {"spark.python.unix.domain.socket.enabled": "true"}


def session_builder(master: str = "local[*]") -> SparkSession.Builder:
    """With what queries of queues need; more can be set before getOrCreate(). Changes the environment of this process,
    which Spark's own processes inherit. UnsupportedPlatform if there is no Java."""
    os.environ["JAVA_HOME"] = str(java_home())
    # Workers otherwise take the first python3 of the path, which may be another version, without Penstock.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(_with_penstock(os.environ.get("PYTHONPATH", "")))
    builder: SparkSession.Builder = SparkSession.builder.master(master)
    for name, value in {**QUERY_SETTINGS, **_PROCESS_SETTINGS}.items():
        builder = builder.config(name, value)
    return builder


def _with_penstock(python_path: str) -> list[str]:
    """For a checkout that is not installed."""
    places = [place for place in python_path.split(os.pathsep) if place]
    home = str(Path(penstock.__file__).resolve().parents[1])
    return places if home in places or "site-packages" in home else [home, *places]
