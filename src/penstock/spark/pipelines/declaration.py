"""What a pipeline may declare: every key, its kind and what it is for.

Read by document.py, described as JSON Schema by json_schema.py. A key is called like its attribute, without the unit
and without an underscore at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from penstock.core.marked_yaml import Mark
from penstock.core.settings.numbers import Count
from penstock.core.settings.objects import Anything, Scalars
from penstock.core.settings.texts import ListOf, Secret, Text
from penstock.core.settings.words import Flag, OneOf
from penstock.queues.names import DEFAULT_NAMESPACE, check_namespace
from penstock.spark.pipelines.kinds import Expressions, Function, Span

Mode = Literal["append", "update", "complete"]
DROP, FAIL = "drop", "fail"
TO_JSON = "to_json"
_TEXTS = ListOf(Text(), or_one=True)
KINDS_OF_ERRORS = ("unavailable", "storage", "executor", "unknown")
"""what a restart may help against; unknown is all that is not the fault of the declaration"""
_ERRORS = ListOf(OneOf(KINDS_OF_ERRORS), or_one=True)


@dataclass(frozen=True, slots=True)
class Places:
    """Where a section stands, and the keys and values in it."""

    path: str = ""
    at: Mark | None = None
    keys: dict[str, Mark] = field(default_factory=dict)
    values: dict[str, Mark] = field(default_factory=dict)
    styles: dict[str, str | None] = field(default_factory=dict)

    def path_of(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def mark_of(self, key: str) -> Mark | None:
        """Of the value; of the section where that key is not written."""
        return self.values.get(key, self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    places: Places = field(default=Places(), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(Declared):
    path: Annotated[str | None, Text(), "the data directory, where driver and executors see it"] = None
    url: Annotated[str | None, Text(), "the broker's Flight listener, grpc://host:port or grpc+tls://host:port"] = None
    token: Annotated[str | None, Secret(), "a token or API key for it, as in ${PENSTOCK_TOKEN}"] = field(
        default=None, repr=False
    )
    user: Annotated[str | None, Text(), "a user for it, instead of a token"] = None
    password: Annotated[str | None, Secret(), "of that user"] = field(default=None, repr=False)
    tls_ca: Annotated[str | None, Text(), "a file with the certificates to trust"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark(Declared):
    column: Annotated[str, Text(), "a column of type timestamp: when a row happened"]
    delay_ms: Annotated[int, Span(0), "how much later than the newest row others may come"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Declared):
    column: Annotated[str, Text(), "a column of type timestamp: when a row happened"]
    length_ms: Annotated[int, Span(), "how long a window is"]
    slide_ms: Annotated[int | None, Span(), "how often one begins; without it each ends where the next begins"] = None
    late_ms: Annotated[int | None, Span(0), "rows that are later than this are left out; a watermark"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Connection):
    queue: Annotated[str | None, Text(), "a queue, several joined by commas, or a pattern like sensors-*"] = None
    parquet: Annotated[str | None, Text(), "a directory of Parquet files, instead of a queue"] = None
    namespace: Annotated[str, Text(check_namespace), "of the queue"] = DEFAULT_NAMESPACE
    format: Annotated[str, OneOf(("raw", "text", "json")), "what is in a message's value: as it is, text, or JSON"] = (
        "raw"
    )
    schema: Annotated[str | None, Text(), "columns of JSON or Parquet, as `device string, at timestamp`"] = None
    keep: Annotated[tuple[str, ...], _TEXTS, "columns of the message beside those of its JSON: topic, timestamp"] = ()
    malformed: Annotated[str, Text(), "what becomes of values that are no such JSON: drop, fail, or a sink"] = FAIL
    watermark: Annotated[Watermark | None, "how long late rows are waited for"] = None
    options: Annotated[dict[str, str], Scalars(), "more options of the source, by Spark's names"] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Declared):
    sql: Annotated[str | None, Text(), "a query over sources and other steps, by their names"] = None
    python: Annotated[object, Function(), "a function of DataFrames that returns one: module:function"] = None
    from_: Annotated[tuple[str, ...], _TEXTS, "what the function is given, or what the window is over"] = ()
    arguments: Annotated[dict[str, object], Anything(), "more arguments of the function, by their names"] = field(
        default_factory=dict
    )
    window: Annotated[Window | None, "rows by their time, for group_by and select"] = None
    group_by: Annotated[tuple[str, ...], _TEXTS, "columns whose values get a row each in every window"] = ()
    select: Annotated[dict[str, str], Expressions(), "columns of a window: {average: avg(celsius)}"] = field(
        default_factory=dict
    )
    watermark: Annotated[Watermark | None, "how long late rows are waited for behind this step"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Declared):
    of: Annotated[str, Text(), "the source or step whose rows are looked at"]
    expect: Annotated[str, Text(), "a condition in SQL that holds for every good row"]
    otherwise: Annotated[str, Text(), "what becomes of others: drop, fail, or the sink of dead letters"] = FAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger(Declared):
    every_ms: Annotated[int, Span(0), "a micro-batch at most so often"] = 1000
    is_once: bool = False
    """all that is there, then the end"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink(Connection):
    from_: Annotated[str | None, Text(), "the source or step that is written; none for a sink of dead letters"] = None
    queue: Annotated[str | None, Text(), "a queue, written exactly once"] = None
    parquet: Annotated[str | None, Text(), "a directory of Parquet files"] = None
    delta: Annotated[str | None, Text(), "a directory of a Delta table"] = None
    iceberg: Annotated[str | None, Text(), "the name of an Iceberg table"] = None
    console: Annotated[bool, Flag(), "rows on standard output, to look at"] = False
    namespace: Annotated[str, Text(check_namespace), "of the queue"] = DEFAULT_NAMESPACE
    key: Annotated[str | None, Text(), "of messages: a column or an expression"] = None
    value: Annotated[str, Text(), "of messages: to_json is the row as JSON, else a column or an expression"] = TO_JSON
    topic: Annotated[str | None, Text(), "of messages: a column or an expression"] = None
    partition_by: Annotated[tuple[str, ...], _TEXTS, "columns that make directories of a table"] = ()
    mode: Annotated[Mode, OneOf(("append", "update", "complete")), "which rows of a window are written, and when"] = (
        "append"
    )
    checkpoint: Annotated[str | None, Text(), "where this sink goes on; usually in the directory checkpoints"] = None
    trigger: Annotated[Trigger | None, "another one than the pipeline's"] = None
    options: Annotated[dict[str, str], Scalars(), "more options of the sink, by Spark's names"] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Declared):
    retries: Annotated[int, Count(0, 1_000_000, or_text=True), "so often in a row, without a micro-batch between"] = 5
    pause_ms: Annotated[int, Span(), "before the first; each is twice as long as the one before"] = 1000
    longest_pause_ms: Annotated[int, Span(), "and none is longer"] = 60_000
    after: Annotated[tuple[str, ...], _ERRORS, "which errors; never after those of the pipeline"] = (
        "unavailable",
        "storage",
        "executor",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings(Declared):
    master: Annotated[str, Text(), "local[*], spark://host:port, yarn, k8s://…"] = "local[*]"
    remote: Annotated[str | None, Text(), "sc://host:port of Spark Connect, instead of a master"] = None
    settings: Annotated[dict[str, str], Scalars(), "Spark's own, as in spark.sql.shuffle.partitions: 4"] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline(Declared):
    name: Annotated[str, Text(), "what its queues, checkpoints and log lines are called by"]
    sources: Annotated[dict[str, Source], "what is read, by name"]
    sinks: Annotated[dict[str, Sink], "what is written, by name; each is a query of its own"]
    steps: Annotated[dict[str, Step], "what is made of it, by name, in any order"] = field(default_factory=dict)
    rules: Annotated[dict[str, Rule], "what rows must hold to, by name, applied in this order"] = field(
        default_factory=dict
    )
    broker: Annotated[Connection, "where queues are, unless a source or sink says otherwise"] = Connection()
    trigger: Annotated[Trigger, "once or availableNow, or {every: 1s}"] = Trigger()
    checkpoints: Annotated[str, Text(), "a directory with one for each sink in it"] = "checkpoints"
    restart: Annotated[Restart, "what happens when a sink's query fails"] = Restart()
    spark: Annotated[SparkSettings, "where it runs"] = SparkSettings()
    stop_timeout_ms: Annotated[int, Span(), "SIGTERM waits so long for the micro-batch that is being written"] = 30_000
