"""Sessions of Spark that fit beside other tests."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.spark.registration import register
from penstock.spark.session import session_builder

ROOT = Path(__file__).parents[2]
LOCAL = "local[2,4]"
"""In one process; a task is tried four times."""
CLUSTER = "local-cluster[2,1,1024]"
"""In processes of their own, where Spark starts tasks twice that are slow."""

_SPECULATION = {
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.25",
}


@contextmanager
def small_session(place: Path, master: str = LOCAL) -> Iterator[SparkSession]:
    """Its workers import this tree, and find `pyspark_penstock` there."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with warnings.catch_warnings():
        # Spark leaves the sockets to its JVM to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        builder = (
            session_builder(master, local_checkpoints=True)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(place / "warehouse"))
            .config("spark.local.dir", str(place))
        )
        for name, value in (_SPECULATION if master == CLUSTER else {}).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        register(session)
        yield session
        session.stop()
