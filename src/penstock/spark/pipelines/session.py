"""The session that a pipeline runs in: local, of a cluster, or of Spark Connect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from penstock.spark.connect import register_source, remote_session
from penstock.spark.pipelines.declaration import SparkSettings
from penstock.spark.pipelines.document import Document
from penstock.spark.pipelines.packages import with_delta
from penstock.spark.pipelines.sinks import checkpoint_of
from penstock.spark.registration import register
from penstock.spark.session import session_builder

_QUIET = {"spark.log.level": "ERROR", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
# Spark's 200 are for clusters: each is a task and a state file for every micro-batch. A checkpoint keeps the number
# it began with.
_LOCAL = {"spark.sql.shuffle.partitions": "4"}


@contextmanager
def pipeline_session(document: Document) -> Iterator[SparkSession]:
    """Stopped afterwards. UnsupportedPlatform if there is no Java, or not what Spark Connect needs."""
    spark = document.pipeline.spark
    session = _remote(document) if spark.remote is not None else _builder(document).getOrCreate()
    try:
        if spark.remote is None:
            register(session)
        yield session
    finally:
        session.stop()


def _builder(document: Document) -> SparkSession.Builder:
    spark = document.pipeline.spark
    _let_workers_import(str(document.directory))
    builder = session_builder(spark.master, local_checkpoints=has_local_checkpoints(document))
    builder = builder.appName(document.pipeline.name)
    for name, value in settings_of(spark).items():
        builder = builder.config(name, value)
    writes_delta = any(sink.delta is not None for sink in document.pipeline.sinks.values())
    return with_delta(builder, spark) if writes_delta else builder


def settings_of(spark: SparkSettings) -> dict[str, str]:
    """What is set for the session, over which the declaration goes."""
    local = _LOCAL if spark.master.startswith("local") else {}
    return {**_QUIET, **local, **spark.settings}


def has_local_checkpoints(document: Document) -> bool:
    """Whether all of them are files of this machine, for sure: a path without a scheme belongs to the file system that
    Hadoop is told, where it is told one."""
    pipeline = document.pipeline
    if not pipeline.spark.master.startswith("local") or "HADOOP_CONF_DIR" in os.environ:
        return False
    if any(name.endswith("fs.defaultFS") for name in pipeline.spark.settings):
        return False
    return all(checkpoint_of(pipeline, name, document.directory).startswith("/") for name in pipeline.sinks)


def _let_workers_import(directory: str) -> None:
    """Functions of files beside the declaration, in processes that Spark starts on this machine."""
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    if directory not in places:
        os.environ["PYTHONPATH"] = os.pathsep.join([*places, directory])


def _remote(document: Document) -> SparkSession:
    spark = document.pipeline.spark
    session = remote_session(spark.remote or "", spark.settings)
    try:
        register_source(session)
    except BaseException:
        session.stop()
        raise
    return session
