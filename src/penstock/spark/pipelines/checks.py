"""What must hold for a whole declaration, before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from penstock.core.marked_yaml import Mark
from penstock.core.settings.kind import nearest_of
from penstock.spark.pipelines.declaration import DROP, FAIL, Step
from penstock.spark.pipelines.document import BadKeys, Document, load
from penstock.spark.pipelines.graph import edges, find_cycle, inputs_of, known_names, letters_to, needed
from penstock.spark.pipelines.packages import odd_package
from penstock.spark.pipelines.part_checks import Checks, check_sink, check_source, check_spark, check_step
from penstock.spark.pipelines.problems import BadPipeline, Problem, Problems
from penstock.spark.pipelines.sound_parts import section_of
from penstock.spark.pipelines.written import mark_inside


def check(document: Document) -> list[str]:
    """BadPipeline with all that is wrong; else what is odd about it, a line each. Needs no Spark."""
    checks = Checks(document, Problems(str(document.file)))
    pipeline = document.pipeline
    check_spark(checks)
    _check_names(checks)
    for name in pipeline.sources:
        check_source(checks, name)
    for name, step in pipeline.steps.items():
        check_step(checks, name)
        _check_inputs(checks, step)
    _check_cycles(checks)
    _check_rules(checks)
    for name in pipeline.sinks:
        check_sink(checks, name)
        _check_feeding(checks, name)
    _check_checkpoints(checks)
    checks.problems.raise_any()
    return list(_unused(checks))


class BadParts(BadPipeline):
    """Something is wrong with parts of a declaration; `document` has what could be read of it."""

    def __init__(self, file: str, problems: Iterable[Problem], document: Document) -> None:
        super().__init__(file, problems)
        self.document = document


def load_and_check(file: Path, changed: Callable[[Document], Document]) -> tuple[Document, list[str]]:
    """The declaration as it is changed, and what is odd about it. BadPipeline with all that is wrong: with keys and
    values, and with what is left of it without those; BadParts if something is left."""
    try:
        document = changed(load(file))
    except BadKeys as error:
        if error.rest is None:
            raise BadPipeline(error.file, error.problems) from None
        rest = changed(error.rest)
        raise BadParts(error.file, [*error.problems, *_more(error, rest)], rest) from None
    try:
        return document, check(document)
    except BadPipeline as error:
        raise BadParts(error.file, error.problems, document) from None


def _more(error: BadKeys, rest: Document) -> Iterator[Problem]:
    """What else is wrong, but for the sections of which something was left out, and for what these may have had."""
    sections = {section_of(problem) for problem in error.problems}
    if any(section in (("sources",), ("steps",), ("rules",), ("sinks",)) for section in sections):
        return
    names = {section[-1] for section in sections}
    try:
        check(rest)
    except BadPipeline as more:
        for problem in more.problems:
            if section_of(problem) not in sections and not any(name in problem.reason for name in names):
                yield problem


def _check_names(checks: Checks) -> None:
    pipeline = checks.document.pipeline
    seen: dict[str, str] = {}
    for name, declared in (*pipeline.sources.items(), *pipeline.steps.items()):
        if (first := seen.setdefault(name.lower(), declared.places.path)) != declared.places.path:
            checks.bad(declared, "", f"is the name of {first} too, SQL does not tell them apart: give it another")
    for name in (DROP, FAIL):
        if name in pipeline.sinks:
            checks.bad(pipeline.sinks[name], "", f"{name} is what a rule can do: give the sink another name")


def _check_inputs(checks: Checks, step: Step) -> None:
    pipeline = checks.document.pipeline
    known, key = known_names(pipeline), "sql" if step.sql is not None else "from"
    for table in inputs_of(step):
        if table.name.lower() not in known:
            near = nearest_of(table.name.lower(), known)
            reason = f"no source or step {table.name!r}" + ("" if near else f": there are {', '.join(known.values())}")
            if key == "sql" and not near:
                reason += "; a table of Spark's catalogue is named with its schema, as in default.prices"
            mark = _mark_in_sql(checks, step, table.offset) if key == "sql" else step.places.mark_of(key)
            checks.problems.add(step.places.path_of(key), reason, mark, known[near] if near else None)


def _mark_in_sql(checks: Checks, step: Step, offset: int) -> Mark | None:
    at = step.places.values.get("sql")
    if at is None or step.sql is None:
        return at
    return mark_inside(checks.document.text, step.sql, at, step.places.styles.get("sql"), offset)


def _check_cycles(checks: Checks) -> None:
    pipeline = checks.document.pipeline
    if (cycle := find_cycle(edges(pipeline))) is not None:
        step = pipeline.steps[cycle[0]]
        checks.bad(step, "", f"reads itself: {' <- '.join(cycle)}; let one of them read something else")


def _check_rules(checks: Checks) -> None:
    pipeline = checks.document.pipeline
    known = known_names(pipeline)
    for rule in pipeline.rules.values():
        if rule.of.lower() not in known:
            checks.bad(rule, "of", f"no source or step {rule.of!r}", nearest_of(rule.of.lower(), known))
        checks.refusal(rule, "otherwise", rule.otherwise)
    for source in pipeline.sources.values():
        if source.format == "json":
            checks.refusal(source, "malformed", source.malformed)


def _check_feeding(checks: Checks, name: str) -> None:
    pipeline = checks.document.pipeline
    sink, letters = pipeline.sinks[name], letters_to(pipeline, name)
    known = known_names(pipeline)
    if sink.from_ is None and not letters:
        checks.bad(sink, "from", "is missing, and no rule sends dead letters here: say what is written")
    if sink.from_ is not None and sink.from_.lower() not in known:
        checks.bad(sink, "from", f"no source or step {sink.from_!r}", nearest_of(sink.from_.lower(), known))
    if sink.from_ is not None and letters:
        reason = f"rules of {', '.join(letters)} send dead letters here, which have other columns: use another sink"
        checks.bad(sink, "from", reason)


def _check_checkpoints(checks: Checks) -> None:
    seen: dict[str, str] = {}
    for name, sink in checks.document.pipeline.sinks.items():
        if sink.checkpoint is not None and (first := seen.setdefault(sink.checkpoint, name)) != name:
            checks.bad(sink, "checkpoint", f"is that of sink {first} too: each needs its own")


def _unused(checks: Checks) -> Iterator[str]:
    pipeline = checks.document.pipeline
    for sink in pipeline.sinks.values():
        kind = "delta" if sink.delta is not None else "iceberg" if sink.iceberg is not None else ""
        if (odd := odd_package(kind, pipeline.spark)) is not None:
            yield f"{sink.places.path_of(kind)}: {odd}"
    used = needed(pipeline)
    for name, declared in (*pipeline.sources.items(), *pipeline.steps.items()):
        if name not in used:
            yield f"{declared.places.path}: no sink needs it, so it does not run"
