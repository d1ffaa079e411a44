"""What of a declaration stands although something is wrong with it: the part that Spark can look at all the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock.spark.pipelines.declaration import Declared, Pipeline
from penstock.spark.pipelines.document import Document
from penstock.spark.pipelines.graph import edges, feeding, find_cycle, inputs_of, known_names, needed
from penstock.spark.pipelines.problems import Problem

Section = TypeVar("Section", bound=Declared)

_NAMED = ("sources", "steps", "rules", "sinks")


@dataclass(frozen=True, slots=True)
class Standing:
    document: Document
    used: frozenset[str]
    """what a sink of the whole declaration needs; some of those sinks are left out"""


def standing(document: Document, problems: Iterable[Problem]) -> Standing | None:
    """Without the sources, steps, rules and sinks that a problem is about, and without what reads those. None if it is
    not known in which Spark it runs, or which sections there are."""
    sections = {section_of(problem) for problem in problems}
    if any(section[0] == "spark" or section in {(kind,) for kind in _NAMED} for section in sections):
        return None
    pipeline = _without(document.pipeline, sections)
    if any(section[0] == "broker" for section in sections):
        of_files = {name: source for name, source in pipeline.sources.items() if source.queue is None}
        pipeline = replace(pipeline, sources=of_files)
    used = frozenset(needed(document.pipeline))
    return Standing(replace(document, pipeline=_whole(pipeline)), used)


def section_of(problem: Problem) -> tuple[str, ...]:
    """`sources`, `readings` of sources.readings.queue."""
    return tuple(problem.path.split(".")[:2])


def _without(pipeline: Pipeline, sections: set[tuple[str, ...]]) -> Pipeline:
    return replace(
        pipeline,
        sources=_kept("sources", pipeline.sources, sections),
        steps=_kept("steps", pipeline.steps, sections),
        rules=_kept("rules", pipeline.rules, sections),
        sinks=_kept("sinks", pipeline.sinks, sections),
    )


def _kept(kind: str, named: dict[str, Section], sections: set[tuple[str, ...]]) -> dict[str, Section]:
    return {name: section for name, section in named.items() if (kind, name) not in sections}


def _whole(pipeline: Pipeline) -> Pipeline:
    """Without steps that read what is not there or themselves, and without sinks to which nothing is written."""
    while True:
        known = known_names(pipeline)
        gone = {
            name
            for name, step in pipeline.steps.items()
            if any(table.name.lower() not in known for table in inputs_of(step))
        }
        if not gone and (cycle := find_cycle(edges(pipeline))) is not None:
            gone = set(cycle)
        if not gone:
            break
        pipeline = replace(pipeline, steps={name: step for name, step in pipeline.steps.items() if name not in gone})
    there = {*pipeline.sources, *pipeline.steps}
    sinks = {
        name: sink
        for name, sink in pipeline.sinks.items()
        if (fed := feeding(pipeline, name)) and there.issuperset(fed)
    }
    return replace(pipeline, sinks=sinks)
