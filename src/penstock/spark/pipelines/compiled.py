"""From a declaration to Spark's streams: a DataFrame for each source and step, and the rows that rules refused."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from penstock.core.errors import InvalidArgument
from penstock.spark.connect import carry_modules
from penstock.spark.pipelines.analysis import analyse, placed
from penstock.spark.pipelines.declaration import Pipeline, Source, Step, Watermark
from penstock.spark.pipelines.document import Document
from penstock.spark.pipelines.functions import load_function
from penstock.spark.pipelines.graph import Judged, edges, feeding, in_order, known_names, needed, rules_of
from penstock.spark.pipelines.problems import BadPipeline, Problem
from penstock.spark.pipelines.rules import Condition, dead_letters, judge
from penstock.spark.pipelines.sources import arriving, read_source


@dataclass(frozen=True, slots=True)
class Compiled:
    """`frames` by the names of sources and steps, without what no sink needs; `letters` by those of sinks."""

    document: Document
    frames: dict[str, DataFrame] = field(default_factory=dict)
    letters: dict[str, DataFrame] = field(default_factory=dict)

    def written_by(self, sink: str) -> DataFrame:
        pipeline = self.document.pipeline
        if pipeline.sinks[sink].from_ is None:
            return self.letters[sink]
        return self.frames[feeding(pipeline, sink)[0]]


def compile_parts(
    spark: SparkSession, document: Document, used: Collection[str] | None = None
) -> tuple[Compiled, list[Problem]]:
    """All that Spark takes, analysed and not started, and what is wrong with the rest; nothing is said of what is made
    of that. `used` are the sources and steps to compile, those that its sinks need unless others are named."""
    pipeline = document.pipeline
    compiled, problems = Compiled(document), list[Problem]()
    used, read_by = needed(pipeline) if used is None else used, edges(pipeline)
    for name in in_order(pipeline):
        if name in used and compiled.frames.keys() >= set(read_by[name]):
            try:
                _Compiling(spark, compiled, name).add()
            except BadPipeline as error:
                problems += error.problems
    return compiled, problems


@dataclass(frozen=True, slots=True)
class _Compiling:
    """Of one source or step."""

    spark: SparkSession
    compiled: Compiled
    name: str

    @property
    def pipeline(self) -> Pipeline:
        return self.compiled.document.pipeline

    def add(self) -> None:
        source = self.pipeline.sources.get(self.name)
        frame = self._source(source) if source is not None else self._step(self.pipeline.steps[self.name])
        frame.createOrReplaceTempView(self.name)
        self.compiled.frames[self.name] = frame

    def _source(self, source: Source) -> DataFrame:
        document = self.compiled.document
        with placed(document, source, "queue" if source.parquet is None else "parquet"):
            frame = read_source(self.spark, self.pipeline, source, document.directory)
            analyse(frame)
        if source.format == "json":
            with placed(document, source, "schema", source.schema):
                frame = self._parsed(frame, source)
        return self._marked(self._judged(frame), source, source.watermark)

    def _parsed(self, frame: DataFrame, source: Source) -> DataFrame:
        arrived = arriving(frame, source)
        rule = next(rules_of(self.pipeline, self.name))
        good = self._split(arrived.frame, [(rule, arrived.is_well_formed)], arrived.value).select(*arrived.columns)
        analyse(good)
        return good

    def _step(self, step: Step) -> DataFrame:
        make: Callable[[Step], DataFrame] = (
            self._sql if step.sql is not None else self._window if step.window is not None else self._python
        )
        return self._marked(self._judged(make(step)), step, step.watermark)

    def _sql(self, step: Step) -> DataFrame:
        with placed(self.compiled.document, step, "sql", step.sql):
            frame = self.spark.sql(step.sql or "")
            analyse(frame)
            return frame

    def _python(self, step: Step) -> DataFrame:
        document = self.compiled.document
        with placed(document, step, "python"):
            function = step.python if callable(step.python) else load_function(str(step.python), document.directory)
            if is_remote():
                carry_modules(document.directory.absolute())
            frame = function(*self._inputs(step), **step.arguments)
            if not isinstance(frame, DataFrame):
                raise InvalidArgument(f"the function returned {type(frame).__name__}, not a DataFrame")
            analyse(frame)
            return frame

    def _window(self, step: Step) -> DataFrame:
        window, frame = step.window, self._inputs(step)[0]
        assert window is not None
        with placed(self.compiled.document, window, "column"):
            if window.late_ms is not None:
                frame = frame.withWatermark(window.column, _interval(window.late_ms))
            slide = None if window.slide_ms is None else _interval(window.slide_ms)
            by_time = F.window(window.column, _interval(window.length_ms), slide)
            analyse(frame.select(by_time))
        with placed(self.compiled.document, step, "group_by"):
            grouped = frame.groupBy(by_time, *map(F.expr, step.group_by))
        with placed(self.compiled.document, step, "select"):
            rows = grouped.agg(*(F.expr(text).alias(name) for name, text in step.select.items()))
            times = F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")
            frame = rows.select(*times, *(F.col(f"`{name}`") for name in rows.columns if name != "window"))
            analyse(frame)
            return frame

    def _inputs(self, step: Step) -> list[DataFrame]:
        known = known_names(self.pipeline)
        return [self.compiled.frames[known[name.lower()]] for name in step.from_]

    def _judged(self, frame: DataFrame) -> DataFrame:
        rules = [rule for rule in rules_of(self.pipeline, self.name) if rule.expect is not None]
        if not rules:
            return frame
        conditions = [(rule, self._condition(frame, rule)) for rule in rules]
        row = F.to_json(F.struct(*(F.col(f"`{name}`") for name in frame.columns)))
        return self._split(frame, conditions, row)

    def _condition(self, frame: DataFrame, rule: Judged) -> Column:
        declared = self.pipeline.rules[rule.name]
        with placed(self.compiled.document, declared, "expect", rule.expect):
            condition = F.expr(rule.expect or "")
            analyse(frame.where(condition))
            return condition

    def _split(self, frame: DataFrame, conditions: list[Condition], row: Column) -> DataFrame:
        """What goes on; the rest is put to the letters of the sinks that the rules name."""
        passed, refused = judge(frame, conditions)
        rules = [rule for rule, _ in conditions]
        for sink in dict.fromkeys(rule.sink for rule in rules if rule.sink is not None):
            found = dead_letters(refused, sink, rules, self.name, row)
            before = self.compiled.letters.get(sink)
            self.compiled.letters[sink] = found if before is None else before.unionByName(found)
        return passed

    def _marked(self, frame: DataFrame, declared: Source | Step, watermark: Watermark | None) -> DataFrame:
        if watermark is None:
            return frame
        with placed(self.compiled.document, watermark, "column"):
            marked = frame.withWatermark(watermark.column, _interval(watermark.delay_ms))
            analyse(marked)
            return marked


def _interval(duration_ms: int) -> str:
    return f"{duration_ms} milliseconds"
