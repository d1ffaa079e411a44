"""What Delta and Iceberg need: whether it is there, and how a session is told of it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import TYPE_CHECKING

from penstock.spark.pipelines.declaration import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = "spark.jars.packages"
_JARS = ("spark.jars", _PACKAGES, "spark.driver.extraClassPath")
_ADVICE = {
    "delta": "pip install delta-spark, or name its package in spark.settings, as in spark.jars.packages: "
    "io.delta:delta-spark_2.13:VERSION (spark.jars for a file), in the version that is made for Spark {spark}",
    "iceberg": "name its package in spark.settings, as in spark.jars.packages: "
    "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13:VERSION (spark.jars for a file), with a spark.sql.catalog "
    "for the table",
}
_EXTENSIONS, _CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def missing_package(kind: str, spark: SparkSettings) -> str | None:
    """What to install for such a sink; None if it is there, or if only a remote server knows."""
    if kind not in _ADVICE or spark.remote is not None:
        return None
    if _is_named(kind, spark) or (kind == "delta" and has_delta()):
        return None
    return f"{kind} is not installed: {_ADVICE[kind].format(spark=_spark_version())}"


def has_delta() -> bool:
    return importlib.util.find_spec("delta") is not None


def with_delta(builder: SparkSession.Builder, spark: SparkSettings) -> SparkSession.Builder:
    """For a session that writes Delta: beside the declaration's own extensions and packages, and with its own catalogue
    if it names one. Jars that it names are taken as they are, so that nothing is fetched for them."""
    extensions = _listed(spark, _EXTENSIONS)
    builder = builder.config(_EXTENSIONS, ",".join(dict.fromkeys([*extensions, _DELTA_EXTENSION])))
    builder = builder.config(_CATALOG, spark.settings.get(_CATALOG, _DELTA_CATALOG))
    if _is_named("delta", spark):
        return builder
    from delta import configure_spark_with_delta_pip

    configured: SparkSession.Builder = configure_spark_with_delta_pip(builder, extra_packages=_listed(spark, _PACKAGES))
    return configured


def _is_named(kind: str, spark: SparkSettings) -> bool:
    return any(kind in spark.settings.get(setting, "") for setting in _JARS)


def _listed(spark: SparkSettings, setting: str) -> list[str]:
    return [item.strip() for item in spark.settings.get(setting, "").split(",") if item.strip()]


def _spark_version() -> str:
    """As packages are called by: 4.3."""
    try:
        return ".".join(importlib.metadata.version("pyspark").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return "4"
