"""A Spark session whose workers find Java, this Python and Penstock."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

import penstock
from penstock.spark.java import java_home

# Of a session, wherever it is: filters reach the indexes, and times mean the same everywhere.
QUERY_SETTINGS = {"spark.sql.python.filterPushdown.enabled": "true", "spark.sql.session.timeZone": "UTC"}
# Of the processes of Spark: batches go to and from Python by Unix sockets instead of TCP.
_PROCESS_SETTINGS = {"spark.python.unix.domain.socket.enabled": "true"}
# Only where executors surely have Penstock.
_LOCAL_SETTINGS = {"spark.python.daemon.module": "penstock.spark.daemon"}
# Only where all checkpoints are files of this machine. What Spark uses otherwise starts twelve processes for each
# micro-batch, chmod and readlink, which take longer than its rows; this starts four. Other file systems need the usual
# one, whose rename replaces a file that is there.
_FILE_SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
# And none of the four, where the JVM and its executors have the class.
_LOCAL_FILES = {"spark.hadoop.fs.file.impl": "penstock.spark.LocalFiles"}
_LOCAL_FILES_JAR = Path(__file__).parent / "jvm" / "local_files.jar"
# What the launcher of Spark puts behind its own jars.
_JARS = "SPARK_DIST_CLASSPATH"


def session_builder(master: str = "local[*]", *, local_checkpoints: bool = False) -> SparkSession.Builder:
    """With what queries of queues need; more can be set before getOrCreate(). Changes the environment of this process,
    which Spark's own processes inherit. `local_checkpoints`: those of all streams are files of this machine.
    UnsupportedPlatform if there is no Java."""
    os.environ["JAVA_HOME"] = str(java_home())
    # Workers otherwise take the first python3 of the path, which may be another version, without Penstock.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(_with_penstock(os.environ.get("PYTHONPATH", "")))
    builder: SparkSession.Builder = SparkSession.builder.master(master)
    local = _LOCAL_SETTINGS if master.startswith("local") else {}
    files = _FILE_SETTINGS if local_checkpoints else {}
    if files and local and _has_local_files():
        files = {**files, **_LOCAL_FILES}
    for name, value in {**QUERY_SETTINGS, **_PROCESS_SETTINGS, **local, **files}.items():
        builder = builder.config(name, value)
    return builder


def _with_penstock(python_path: str) -> list[str]:
    """For a checkout that is not installed."""
    places = [place for place in python_path.split(os.pathsep) if place]
    home = str(Path(penstock.__file__).resolve().parents[1])
    return places if home in places or "site-packages" in home else [home, *places]


def _has_local_files() -> bool:
    """Whether the JVM of this process has our class for files, or will have it when it is started."""
    jar = str(_LOCAL_FILES_JAR)
    if os.name != "posix" or not _LOCAL_FILES_JAR.exists():
        return False
    gateway = SparkContext._gateway
    if gateway is not None:
        return jar in gateway.jvm.java.lang.System.getProperty("java.class.path").split(os.pathsep)
    jars = [each for each in os.environ.get(_JARS, "").split(os.pathsep) if each]
    os.environ[_JARS] = os.pathsep.join(jars if jar in jars else [*jars, jar])
    return True
