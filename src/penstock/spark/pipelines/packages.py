"""What Delta and Iceberg need: whether it is there, and how a session is told of it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from typing import TYPE_CHECKING

from penstock.spark.pipelines.declaration import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = "spark.jars.packages"
_JARS = ("spark.jars", _PACKAGES, "spark.driver.extraClassPath")
# The newest that there was for each Spark in November 2026, as Maven Central had them. Neither has one for Spark 4.3:
# Delta's for 4.2 writes there, which tests/spark/test_pipeline_packages.py tries; Iceberg's for 4.1 does not load
# (IncompatibleClassChangeError, connector.catalog.View is no interface any more).
_RELEASES = {
    "delta": {
        **{spark: f"io.delta:delta-spark_{spark}_2.13:4.4.0" for spark in ("4.0", "4.1", "4.2")},
        "4.3": "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
    "iceberg": {
        "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
}
_BESIDE = {"delta": "", "iceberg": ", with a spark.sql.catalog for the table"}
# As they are called: delta-spark_4.2_2.13, iceberg-spark-runtime-4.1_2.13.
_MADE_FOR = re.compile(r"(?:delta-spark_|iceberg-spark-runtime-)(\d+\.\d+)_\d")
_EXTENSIONS, _CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def missing_package(kind: str, spark: SparkSettings) -> str | None:
    """What to install for such a sink; None if it is there, or if only a remote server knows."""
    if kind not in _RELEASES or spark.remote is not None:
        return None
    if _is_named(kind, spark) or (kind == "delta" and has_delta()):
        return None
    here, newest = _spark_version(), max(_RELEASES[kind])
    named = (
        f"name its package in spark.settings, as in spark.jars.packages: {{}} (spark.jars for a file){_BESIDE[kind]}"
    )
    if (package := package_for(kind)) is not None:
        return f"{kind} is not installed: {named.format(package)}"
    return (
        f"{kind} is not installed, and there is no {kind} package for Spark {here} yet: the newest is for Spark "
        f"{newest}. Install pyspark {newest} and {named.format(_RELEASES[kind][newest])}; or name a newer package"
    )


def package_for(kind: str) -> str | None:
    """For the Spark that is installed; None if no release for it is known."""
    return _RELEASES[kind].get(_spark_version())


def odd_package(kind: str, spark: SparkSettings) -> str | None:
    """What is odd about the package that is named for such a sink: it is made for another Spark."""
    if kind not in _RELEASES or spark.remote is not None:
        return None
    made_for = [found for setting in _JARS for found in _MADE_FOR.findall(spark.settings.get(setting, ""))]
    here, known = _spark_version(), package_for(kind)
    if not _is_named(kind, spark) or not made_for or here in made_for or known in _listed(spark, _PACKAGES):
        return None
    advice = f"there is no {kind} package for Spark {here} yet" if known is None else f"{known} does"
    made = f"the package of {kind} is made for Spark {made_for[0]}"
    return f"{made}, and Spark {here} is installed: it may not work; {advice}"


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
