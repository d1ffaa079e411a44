"""Whether what Delta and Iceberg need is there."""

from __future__ import annotations

import importlib.util

from penstock.spark.pipelines.declaration import SparkSettings

_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_ADVICE = {
    "delta": "pip install delta-spark, or name its package in spark.settings, as in spark.jars.packages: "
    "io.delta:delta-spark_2.13:4.0.0",
    "iceberg": "name its package in spark.settings, as in spark.jars.packages: "
    "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0, with a spark.sql.catalog for the table",
}


def missing_package(kind: str, spark: SparkSettings) -> str | None:
    """What to install for such a sink; None if it is there, or if only a remote server knows."""
    if kind not in _ADVICE or spark.remote is not None:
        return None
    is_named = any(kind in spark.settings.get(setting, "") for setting in _JARS)
    if is_named or (kind == "delta" and has_delta()):
        return None
    return f"{kind} is not installed: {_ADVICE[kind]}"


def has_delta() -> bool:
    return importlib.util.find_spec("delta") is not None
