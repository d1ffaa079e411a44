"""What must hold for one source, step or sink, and for the session."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.errors import InvalidArgument
from penstock.core.settings.kind import nearest_of
from penstock.queues.names import check_queue_name
from penstock.spark.pipelines.declaration import DROP, FAIL, TO_JSON, Connection, Declared, Pipeline, Sink, Source, Step
from penstock.spark.pipelines.document import Document
from penstock.spark.pipelines.functions import find_function
from penstock.spark.pipelines.graph import upstream
from penstock.spark.pipelines.packages import missing_package
from penstock.spark.pipelines.problems import Problems
from penstock.spark.pipelines.schemas import column_names

MESSAGE_COLUMNS = (
    "key",
    "topic",
    "queue",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
    "deadLetter",
    "native",
)
"""what can be kept of a message beside its JSON; tables/schema.py has them, and needs pyarrow"""
SINK_KINDS = ("queue", "parquet", "delta", "iceberg", "console")
_SCHEMES = ("grpc://", "grpc+tls://")
# What Spark's sinks can do: those in Python, as that of queues, only append.
_MODES = {
    "queue": ("append",),
    "parquet": ("append",),
    "delta": ("append", "complete"),
    "iceberg": ("append", "complete"),
    "console": ("append", "update", "complete"),
}
_OF_QUEUES = ("key", "value", "topic", "path", "url", "token", "user", "password", "tls_ca", "namespace")
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


@dataclass(frozen=True, slots=True)
class Checks:
    document: Document
    problems: Problems

    @property
    def pipeline(self) -> Pipeline:
        return self.document.pipeline

    def bad(self, declared: Declared, key: str, reason: str, nearest: str | None = None) -> None:
        """About a key of a section, or with an empty one about the section."""
        places = declared.places
        path, mark = (places.path_of(key), places.mark_of(key)) if key else (places.path, places.at)
        self.problems.add(path, reason, mark, nearest)

    def only_one(self, declared: Declared, keys: tuple[str, ...]) -> str | None:
        """The one that is written; None, and a problem, if it is not one."""
        given = [key for key in keys if key in declared.places.values]
        if len(given) == 1:
            return given[0]
        if given:
            self.bad(declared, given[1], f"beside {given[0]}: only one of {', '.join(keys)} can be")
        else:
            self.bad(declared, "", f"needs one of {', '.join(keys)}")
        return None

    def only_with(self, declared: Declared, keys: tuple[str, ...], other: str) -> None:
        """Those keys mean nothing here; `other` says where they do."""
        for key in keys:
            if key in declared.places.values:
                self.bad(declared, key, f"has a meaning only {other}: leave it out")

    def refusal(self, declared: Declared, key: str, otherwise: str) -> None:
        """What becomes of rows that a rule refuses."""
        sinks = self.pipeline.sinks
        if otherwise not in (DROP, FAIL, *sinks):
            near = nearest_of(otherwise, (DROP, FAIL, *sinks))
            self.bad(declared, key, f"{otherwise!r} is neither drop, fail nor a sink", near)

    def address(self, connection: Connection) -> None:
        """The broker's Flight listener; that of HTTP is often taken for it."""
        if connection.url is not None and not connection.url.startswith(_SCHEMES):
            self.bad(connection, "url", f"does not begin with {' or '.join(_SCHEMES)}: it is that of listeners.flight")


def check_spark(checks: Checks) -> None:
    pipeline = checks.pipeline
    spark, restart = pipeline.spark, pipeline.restart
    if not set(pipeline.name) <= _NAME_CHARACTERS:
        checks.bad(pipeline, "name", "has other characters than letters, digits, _, - and .: it names files")
    checks.address(pipeline.broker)
    if {"master", "remote"} <= spark.places.values.keys():
        checks.bad(spark, "remote", "beside master: only one of them can be")
    if restart.pause_ms > restart.longest_pause_ms:
        checks.bad(restart, "pause", "is longer than longest_pause")


def check_source(checks: Checks, name: str) -> None:
    source = checks.pipeline.sources[name]
    kind = checks.only_one(source, ("queue", "parquet"))
    checks.address(source)
    if kind == "queue":
        _check_queue_source(checks, source)
    elif kind == "parquet":
        checks.only_with(source, (*_OF_QUEUES, "format", "keep", "malformed"), "with queue")
        if source.schema is None:
            checks.bad(source, "schema", "is missing: a stream of Parquet files needs its columns")


def _check_queue_source(checks: Checks, source: Source) -> None:
    broker = checks.pipeline.broker
    if source.path is not None and source.url is not None:
        checks.bad(source, "url", "beside path: only one of them can be")
    if not any((source.path, source.url, broker.path, broker.url)):
        checks.bad(source, "queue", "needs path or url, here or in broker: where the queue is")
    if source.format != "json":
        checks.only_with(source, ("schema", "keep", "malformed"), "with `format: json`")
        return
    if source.schema is None:
        checks.bad(source, "format", "json needs schema: its columns, as in `device string, at timestamp`")
    taken = {column.lower() for column in column_names(source.schema or "")}
    for column in source.keep:
        if column not in MESSAGE_COLUMNS:
            checks.bad(source, "keep", f"no column {column!r} of a message", nearest_of(column, MESSAGE_COLUMNS))
        elif column.lower() in taken:
            checks.bad(source, "keep", f"{column} is a column of schema too: rename it there")


def check_step(checks: Checks, name: str) -> None:
    step = checks.pipeline.steps[name]
    kind = checks.only_one(step, ("sql", "python", "window"))
    if kind != "window":
        checks.only_with(step, ("group_by", "select"), "with window")
    if kind != "python":
        checks.only_with(step, ("arguments",), "with python")
    if kind == "sql":
        checks.only_with(step, ("from",), "with python and window; SQL names what it reads itself")
    elif kind == "python":
        _check_python(checks, step)
    elif kind == "window":
        _check_window(checks, step)


def _check_python(checks: Checks, step: Step) -> None:
    if not step.from_:
        checks.bad(step, "from", "is missing: say which sources or steps the function is given")
    if isinstance(step.python, str):
        try:
            find_function(step.python, checks.document.directory)
        except InvalidArgument as error:
            checks.bad(step, "python", str(error))


def _check_window(checks: Checks, step: Step) -> None:
    window = step.window
    assert window is not None
    if len(step.from_) != 1:
        checks.bad(step, "from", "must be one source or step: what the window is over")
    if not step.select:
        checks.bad(step, "select", "is missing: the columns of a window, as in {average: avg(celsius)}")
    if window.slide_ms is not None and window.slide_ms > window.length_ms:
        checks.bad(window, "slide", "is longer than length, which would leave rows out")


def check_sink(checks: Checks, name: str) -> None:
    sink = checks.pipeline.sinks[name]
    kind = checks.only_one(sink, SINK_KINDS)
    checks.address(sink)
    if kind is None:
        return
    if kind == "queue":
        _check_queue_sink(checks, sink)
    else:
        checks.only_with(sink, _OF_QUEUES, "with queue")
    if kind not in ("parquet", "delta", "iceberg"):
        checks.only_with(sink, ("partition_by",), "with parquet, delta and iceberg")
    if sink.mode not in _MODES[kind]:
        checks.bad(sink, "mode", f"{kind} can be written with {' and '.join(_MODES[kind])} alone")
    if (missing := missing_package(kind, checks.pipeline.spark)) is not None:
        checks.bad(sink, kind, missing)
    _check_append(checks, sink)


def _check_queue_sink(checks: Checks, sink: Sink) -> None:
    try:
        check_queue_name(sink.queue or "")
    except InvalidArgument as error:
        checks.bad(sink, "queue", str(error))
    if connection_of(sink, checks.pipeline.broker).url is None:
        checks.bad(sink, "queue", "needs url, here or in broker: a queue is written through the broker")
    if sink.from_ is None and (sink.key is not None or sink.value != TO_JSON):
        checks.only_with(sink, ("key", "value"), "with from; dead letters are JSON, with their rule as the key")


def _check_append(checks: Checks, sink: Sink) -> None:
    """A window is appended when it is over, which nobody knows without a watermark."""
    pipeline = checks.pipeline
    if sink.mode != "append" or sink.from_ not in pipeline.steps:
        return
    above = upstream(pipeline, sink.from_)
    marked = [part for part in above if (pipeline.sources.get(part) or pipeline.steps[part]).watermark is not None]
    for name in sorted(above & pipeline.steps.keys()):
        window = pipeline.steps[name].window
        if window is not None and window.late_ms is None and not marked:
            reason = "append writes a window when it is over: give the window `late`, or a source `watermark`"
            checks.bad(sink, "mode", f"{name} has no watermark, and {reason}")


def connection_of(part: Source | Sink, broker: Connection) -> Connection:
    """What it says itself, else what the broker's section says; never half of each."""
    if part.path is not None or part.url is not None:
        return part
    return broker
