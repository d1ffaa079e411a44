"""No statement of the specifications is forgotten: each has a test whose docstring names it, or a reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.conformance.clauses import ALL, UNTESTED, Clause
from tests.conformance.deviations import DEVIATIONS
from tests.conformance.scene import V3, V5

_REFERENCE = re.compile(r"\[MQTT-(\d+(?:\.\d+)+)-(\d+)\]")
_BOTH = ("in both versions", "of both versions")


def _tests() -> list[ast.FunctionDef]:
    return [
        node
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_mqtt")
    ]


def _named(docstring: str) -> set[Clause]:
    """`[…] in 5.0, […] in 3.1.1`, `[…] in both versions`; without a version they are of 5.0."""
    found: set[Clause] = set()
    waiting: list[tuple[str, int]] = []
    for part in re.split(r"(\[MQTT-[^\]]+\]|in both versions|of both versions|in 5\.0|in 3\.1\.1)", docstring):
        if reference := _REFERENCE.fullmatch(part):
            waiting.append((reference[1], int(reference[2])))
        elif part in (*_BOTH, "in 5.0", "in 3.1.1"):
            versions = (V3, V5) if part in _BOTH else (V5,) if part == "in 5.0" else (V3,)
            found |= {Clause(version, *each) for each in waiting for version in versions}
            waiting = []
    return found | {Clause(V5, *each) for each in waiting}


def test_every_statement_is_tested_or_has_a_reason() -> None:
    tested = {clause for test in _tests() for clause in _named(ast.get_docstring(test) or "")}
    assert sorted(ALL - tested - set(UNTESTED)) == []


def test_only_statements_that_exist_are_named() -> None:
    unknown = {test.name: _named(ast.get_docstring(test) or "") - ALL for test in _tests()}
    assert {name: list(map(str, clauses)) for name, clauses in unknown.items() if clauses} == {}


def test_no_statement_is_both_tested_and_excused() -> None:
    tested = {clause for test in _tests() for clause in _named(ast.get_docstring(test) or "")}
    assert sorted(tested & set(UNTESTED)) == []


def test_every_deviation_is_of_a_test_that_exists() -> None:
    names = {test.name for test in _tests()}
    assert {test for _, test in DEVIATIONS if test.partition("[")[0] not in names} == set()
