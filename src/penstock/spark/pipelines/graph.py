"""What reads what: the order of steps, and what each sink needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from penstock.spark.pipelines.declaration import DROP, FAIL, Pipeline, Rule, Step
from penstock.spark.pipelines.sql_names import TableName, table_names

MALFORMED = "malformed"
"""the rule that a source of JSON has by itself"""


@dataclass(frozen=True, slots=True)
class Judged:
    """A rule as it is applied; `expect` is None for that of malformed values."""

    name: str
    of: str
    expect: str | None
    otherwise: str

    @property
    def sink(self) -> str | None:
        return None if self.otherwise in (DROP, FAIL) else self.otherwise


def inputs_of(step: Step) -> list[TableName]:
    """The names it reads, with their places in the query where it is one."""
    if step.sql is not None:
        return table_names(step.sql)
    return [TableName(name, 0) for name in step.from_]


def known_names(pipeline: Pipeline) -> dict[str, str]:
    """Sources and steps by how SQL finds them, which is without regard to case."""
    return {name.lower(): name for name in (*pipeline.sources, *pipeline.steps)}


def edges(pipeline: Pipeline) -> dict[str, list[str]]:
    """Of each step those that it reads, as they are called where they are declared; unknown ones are left out."""
    known = known_names(pipeline)
    found: dict[str, list[str]] = {name: [] for name in pipeline.sources}
    for name, step in pipeline.steps.items():
        read = (known.get(table.name.lower()) for table in inputs_of(step))
        found[name] = list(dict.fromkeys(one for one in read if one is not None))
    return found


def find_cycle(read_by: Mapping[str, Iterable[str]]) -> list[str] | None:
    """Names that lead from one back to itself."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str] | None:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return None
        done.add(name)
        return next((cycle for below in read_by.get(name, ()) if (cycle := walk(below, [*way, name]))), None)

    return next((cycle for name in read_by if (cycle := walk(name, []))), None)


def in_order(pipeline: Pipeline) -> list[str]:
    """Sources and steps, each behind all that it reads; there must be no cycle."""
    read_by, order = edges(pipeline), dict[str, None]()

    def add(name: str) -> None:
        for below in read_by[name]:
            add(below)
        order.setdefault(name)

    for name in read_by:
        add(name)
    return list(order)


def upstream(pipeline: Pipeline, name: str) -> set[str]:
    """All that it is made of, itself too."""
    return _behind(edges(pipeline), [name])


def needed(pipeline: Pipeline) -> set[str]:
    """The sources and steps that some sink is made of."""
    return _behind(edges(pipeline), [name for sink in pipeline.sinks for name in feeding(pipeline, sink)])


def _behind(read_by: Mapping[str, Iterable[str]], waiting: list[str]) -> set[str]:
    found: set[str] = set()
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting += read_by.get(one, [])
    return found


def rules_of(pipeline: Pipeline, name: str) -> Iterator[Judged]:
    """Those of a source or step, in the order they are applied."""
    source = pipeline.sources.get(name)
    if source is not None and source.format == "json":
        yield Judged(MALFORMED, name, None, source.malformed)
    for rule_name, rule in pipeline.rules.items():
        if known_names(pipeline).get(rule.of.lower()) == name:
            yield _judged(rule_name, name, rule)


def _judged(rule_name: str, of: str, rule: Rule) -> Judged:
    return Judged(rule_name, of, rule.expect, rule.otherwise)


def letters_to(pipeline: Pipeline, sink: str) -> list[str]:
    """The sources and steps whose refused rows go to that sink."""
    names = (*pipeline.sources, *pipeline.steps)
    return [name for name in names if any(rule.sink == sink for rule in rules_of(pipeline, name))]


def feeding(pipeline: Pipeline, sink: str) -> list[str]:
    """What a sink reads: what it is from, or those whose dead letters it takes."""
    found = pipeline.sinks[sink].from_
    return letters_to(pipeline, sink) if found is None else [known_names(pipeline).get(found.lower(), found)]
