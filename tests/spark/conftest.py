"""One Spark session for all of these tests: it takes longer to start than most of them to run."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytest.importorskip("pyspark", reason="pip install 'penstock[spark]'")

from pyspark.sql import SparkSession  # noqa: E402  # only where there is one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Its workers import this tree, and find `pyspark_penstock` there."""
    from penstock.spark.java import java_home

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    place = tmp_path_factory.mktemp("spark")
    with warnings.catch_warnings():
        # Spark leaves the sockets to its JVM to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(place / "warehouse"))
            .config("spark.local.dir", str(place))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
