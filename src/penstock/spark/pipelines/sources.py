"""Streams of sources, as they are declared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark.pipelines.declaration import Connection, Pipeline, Source
from penstock.spark.pipelines.part_checks import connection_of
from penstock.spark.pipelines.schemas import column_names

MALFORMED_COLUMN = "__malformed"
_ROW = "__row"


@dataclass(frozen=True, slots=True)
class Arriving:
    """Messages with what was made of their JSON beside them: columns of `__row`, and the value they were."""

    frame: DataFrame
    columns: tuple[Column, ...]

    @property
    def is_well_formed(self) -> Column:
        return F.col(_ROW).isNotNull() & F.col(f"{_ROW}.{MALFORMED_COLUMN}").isNull()

    @property
    def value(self) -> Column:
        return F.col("value").cast("string")


def resolved(path: str, directory: Path) -> str:
    """A relative path begins at the directory of the declaration; what has a scheme is left alone."""
    return path if ":/" in path else str((directory / path).absolute())


def connection_options(connection: Connection, directory: Path, *, is_writing: bool = False) -> dict[str, str]:
    """Of format("penstock"). A reader with a path needs no server."""
    if connection.path is not None and not is_writing:
        return {"path": resolved(connection.path, directory)}
    found = {
        "url": connection.url,
        "token": connection.token,
        "user": connection.user,
        "password": connection.password,
        "tlsCa": None if connection.tls_ca is None else resolved(connection.tls_ca, directory),
    }
    return {name: value for name, value in found.items() if value is not None}


def read_source(spark: SparkSession, pipeline: Pipeline, source: Source, directory: Path) -> DataFrame:
    """As it comes: of JSON the messages, which arriving() reads."""
    if source.parquet is not None:
        reader = spark.readStream.format("parquet").schema(source.schema or "").options(**source.options)
        return reader.load(resolved(source.parquet, directory))
    options = {
        **connection_options(connection_of(source, pipeline.broker), directory),
        "queue": str(source.queue),
        "namespace": source.namespace,
        **_columns(source),
        **source.options,
    }
    frame = spark.readStream.format("penstock").options(**options).load()
    return _as_text(frame) if source.format == "text" else frame


def _columns(source: Source) -> dict[str, str]:
    """Spark cannot tell a source which columns it uses: of JSON it is known."""
    if source.format != "json":
        return {}
    return {"columns": ",".join(dict.fromkeys(("value", *source.keep)))}


def _as_text(frame: DataFrame) -> DataFrame:
    columns = {str(name): F.col(name).cast("string") for name in frame.columns if name in ("key", "value")}
    return frame.withColumns(columns)


def arriving(frame: DataFrame, source: Source) -> Arriving:
    schema = f"{source.schema}, {MALFORMED_COLUMN} string"
    options = {"columnNameOfCorruptRecord": MALFORMED_COLUMN}
    row = F.from_json(F.col("value").cast("string"), schema, options)
    parsed = (F.col(f"{_ROW}.`{name}`") for name in column_names(source.schema or ""))
    return Arriving(frame.withColumn(_ROW, row), (*parsed, *map(F.col, source.keep)))
