"""What would run, for people and for programs. Nothing of it is a secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.core.units import duration_text
from penstock.spark.pipelines.declaration import TO_JSON, Pipeline, Sink, Source, Step, Trigger, Window
from penstock.spark.pipelines.graph import edges, feeding, in_order, needed, rules_of
from penstock.spark.pipelines.part_checks import SINK_KINDS, connection_of

if TYPE_CHECKING:
    from penstock.spark.pipelines.document import Document

Facts = dict[str, object]


def plan_of(document: Document) -> Facts:
    """For programs: sources and steps in the order they are made, sinks with what they need."""
    pipeline = document.pipeline
    used, read_by = needed(pipeline), edges(pipeline)
    names = [name for name in in_order(pipeline) if name in used]
    return {
        "name": pipeline.name,
        "spark": pipeline.spark.remote or pipeline.spark.master,
        "trigger": trigger_text(pipeline.trigger),
        "sources": [_source(pipeline, name) for name in names if name in pipeline.sources],
        "steps": [_step(pipeline, name, read_by[name]) for name in names if name in pipeline.steps],
        "sinks": [_sink(document, name) for name in pipeline.sinks],
    }


def plan_lines(document: Document) -> Iterator[str]:
    """For people: a line for each thing, rules under what they are about."""
    plan = plan_of(document)
    yield f"{plan['name']} on {plan['spark']}, {plan['trigger']}"
    for part in ("source", "step", "sink"):
        for facts in _list(plan[f"{part}s"]):
            reads = f" <- {', '.join(map(str, _list(facts['reads'])))}" if "reads" in facts else ""
            yield f"{part} {facts['name']}{reads}: {facts['what']}"
            yield from (f"  rule {rule['name']}: {rule['what']}" for rule in _list(facts.get("rules", [])))
            if "checkpoint" in facts:
                yield f"  {facts['mode']}, {facts['trigger']}, checkpoint {facts['checkpoint']}"


def trigger_text(trigger: Trigger) -> str:
    return "once" if trigger.is_once else f"every {duration_text(trigger.every_ms)}"


def _list(value: object) -> list[Facts]:
    assert isinstance(value, list)
    return value


def _source(pipeline: Pipeline, name: str) -> Facts:
    source = pipeline.sources[name]
    return {"name": name, "what": _source_text(pipeline, source), "rules": _rules(pipeline, name)}


def _source_text(pipeline: Pipeline, source: Source) -> str:
    if source.parquet is not None:
        what = f"parquet {source.parquet}: {source.schema}"
    else:
        connection = connection_of(source, pipeline.broker)
        columns = f", {source.format}" + (f": {source.schema}" if source.schema else "")
        what = f"queue {source.queue} of {connection.path or connection.url}{columns}"
    mark = source.watermark
    return what if mark is None else f"{what}; watermark {duration_text(mark.delay_ms)} behind {mark.column}"


def _step(pipeline: Pipeline, name: str, reads: list[str]) -> Facts:
    step = pipeline.steps[name]
    return {"name": name, "reads": reads, "what": _step_text(step), "rules": _rules(pipeline, name)}


def _step_text(step: Step) -> str:
    if step.sql is not None:
        return " ".join(step.sql.split())
    if step.window is not None:
        columns = ", ".join(f"{text} as {name}" for name, text in step.select.items())
        return f"{_window_text(step.window)}, by {', '.join(step.group_by) or 'nothing else'}: {columns}"
    named = step.python if isinstance(step.python, str) else getattr(step.python, "__qualname__", "a function")
    arguments = ", ".join(f"{name}={value!r}" for name, value in step.arguments.items())
    return f"{named}({arguments})"


def _window_text(window: Window) -> str:
    slide = "" if window.slide_ms is None else f" every {duration_text(window.slide_ms)}"
    late = "" if window.late_ms is None else f", {duration_text(window.late_ms)} late at most"
    return f"windows of {duration_text(window.length_ms)}{slide} of {window.column}{late}"


def _rules(pipeline: Pipeline, name: str) -> list[Facts]:
    return [
        {"name": rule.name, "what": f"{rule.expect or 'JSON of the schema'}, otherwise {rule.otherwise}"}
        for rule in rules_of(pipeline, name)
    ]


def _sink(document: Document, name: str) -> Facts:
    pipeline = document.pipeline
    sink = pipeline.sinks[name]
    return {
        "name": name,
        "reads": feeding(pipeline, name),
        "what": ("dead letters to " if sink.from_ is None else "") + _sink_text(pipeline, sink),
        "mode": sink.mode,
        "trigger": trigger_text(sink.trigger or pipeline.trigger),
        "checkpoint": sink.checkpoint or f"{pipeline.checkpoints}/{name}",
    }


def _sink_text(pipeline: Pipeline, sink: Sink) -> str:
    kind = next(kind for kind in SINK_KINDS if getattr(sink, kind))
    if kind == "queue":
        key = f", key {sink.key}" if sink.key else ""
        value = "the row as JSON" if sink.value == TO_JSON else sink.value
        return f"queue {sink.queue} at {connection_of(sink, pipeline.broker).url}{key}, value {value}, exactly once"
    by = f" by {', '.join(sink.partition_by)}" if sink.partition_by else ""
    return kind if kind == "console" else f"{kind} {getattr(sink, kind)}{by}"
