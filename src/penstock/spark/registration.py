"""`format("penstock")` for sessions in which several streams begin at the same time."""

from __future__ import annotations

import tempfile

from pyspark.sql import SparkSession

# PythonStreamingSourceRunner of Spark 4.3 puts these into one map of the source, in the thread of each stream. Where
# two of them add keys at once, one may be lost, and from then on nothing that has the source can be serialised
# ("Illegal size 5 of collection, expected 6"). Keys that are there already are only replaced.
_WRITTEN = {
    "SPARK_LOCAL_DIRS": tempfile.gettempdir(),
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}


def register(session: SparkSession) -> None:
    """Register the source with all that Spark will write beside it. For sessions of this process, not of Spark
    Connect."""
    from penstock.spark.source import PenstockSource

    environment = session.sparkContext.environment
    before = dict(environment)
    environment.update({**_WRITTEN, **before})
    try:
        session.dataSource.register(PenstockSource)
    finally:
        environment.clear()
        environment.update(before)
