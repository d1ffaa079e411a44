"""What runs without an extra imports nothing that only an extra brings."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SOURCE = _ROOT / "src"
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]

_IMPORTED_AS = {
    "argon2-cffi": {"argon2"},
    "opentelemetry-exporter-otlp-proto-http": {"opentelemetry"},
    "opentelemetry-sdk": {"opentelemetry"},
    "pyjwt": {"jwt"},
    "pyspark": {"pyspark", "py4j", "grpc"},
    "pyyaml": {"yaml"},
}
"""packages whose import has another name"""

NEEDS = {
    "jwt": ("penstock.broker.auth.tokens",),
    "otlp": ("penstock.telemetry.otlp", "penstock.telemetry.otlp_points"),
    "arrow": (
        "penstock.cli.bench.flight",
        "penstock.cli.pipeline.replay_sinks",
        "penstock.cli.replaying",
        "penstock.client.flight",
        "penstock.embedded.arrow",
        "penstock.gateways.flight.problems",
        "penstock.gateways.flight.row_stream",
        "penstock.gateways.flight.rows_body",
        "penstock.gateways.flight.service",
        "penstock.gateways.flight.partition_groups",
        "penstock.gateways.flight.streams",
        "penstock.jobs",
        "penstock.log.arrow",
        "penstock.log.reading.arrow_encoding",
        "penstock.log.reading.joined",
        "penstock.tables",
    ),
    "sql": ("penstock.tables.sql",),
    "spark": ("penstock.spark", "pyspark_penstock"),
}
"""extra -> the modules that may be imported only where it is installed, with all below them"""


LATE = {
    "penstock.broker.auth.access": ("jwt",),
    "penstock.cli.bench.bench": ("arrow",),
    "penstock.cli.doctor.network": ("jwt",),
    "penstock.cli.pipeline.archive": ("arrow",),
    "penstock.cli.pipeline.check": ("spark",),
    "penstock.cli.pipeline.file": ("spark",),
    "penstock.cli.pipeline.replay": ("arrow", "spark"),
    "penstock.cli.pipeline.report": ("arrow",),
    "penstock.cli.pipeline.run": ("spark",),
    "penstock.cli.pipeline.options": ("arrow", "spark"),
    "penstock.cli.pipeline.snapshot": ("arrow",),
    "penstock.cli.sql.sql": ("sql",),
    "penstock.cli.table_source": ("arrow",),
    "penstock.embedded.outgoing": ("arrow",),
    "penstock.gateways.flight.child": ("arrow",),
    "penstock.jobs.replay_transform": ("sql",),
    "penstock.server.config_otlp": ("otlp",),
    "penstock.server.event_loop": ("uvloop",),
}
"""module -> the extras that functions of it need, and say so where one is missing: tests/e2e/test_install.py"""
OF_THE_USER = {"delta"}
"""packages that a declaration may use if they are there"""


def _packages(requirements: Iterable[str]) -> set[str]:
    names = [re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0] for requirement in requirements]
    return set[str]().union(*(_IMPORTED_AS.get(name, {name}) for name in names))


def _imported(body: Iterable[ast.AST]) -> Iterator[tuple[str, str | None]]:
    """Module and name of each import that runs when the module is imported."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None and node.level == 0
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from _imported(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imported(ast.iter_child_nodes(node))


@cache
def _files() -> dict[str, Path]:
    return {
        ".".join(file.relative_to(_SOURCE).with_suffix("").parts).removesuffix(".__init__"): file
        for file in _SOURCE.rglob("*.py")
    }


@cache
def _modules() -> dict[str, list[tuple[str, str | None]]]:
    return {name: list(_imported(ast.parse(file.read_text()).body)) for name, file in _files().items()}


def _ours(name: str) -> set[str]:
    """What of Penstock an import of `name` imports, packages above included."""
    modules, parts = _modules(), name.split(".")
    found = {".".join(parts[:end]) for end in range(1, len(parts))}
    for module, attribute in modules[name]:
        parts = module.split(".")
        found |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)} | {f"{module}.{attribute}"}
    return found & modules.keys()


@cache
def _outside(name: str) -> frozenset[str]:
    """Packages of others that an import of `name` imports, by itself or through others of ours."""
    seen, waiting = {name}, [name]
    while waiting:
        fresh = _ours(waiting.pop()) - seen
        seen |= fresh
        waiting += fresh
    named = {module.partition(".")[0] for each in seen for module, _ in _modules()[each]}
    return frozenset(named - sys.stdlib_module_names - {"penstock"})


def _extras_of(name: str) -> list[str]:
    return [extra for extra, heads in NEEDS.items() for head in heads if f"{name}.".startswith(f"{head}.")]


def test_a_module_imports_only_packages_that_are_installed_where_it_is_used() -> None:
    core, optional = _packages(_PROJECT["dependencies"]), _PROJECT["optional-dependencies"]
    wrong = {}
    for name in _modules():
        allowed = core.union(*(_packages(optional[extra]) for extra in _extras_of(name)))
        if missing := _outside(name) - allowed:
            wrong[name] = sorted(missing)
    assert not wrong


def _imported_late(name: str) -> set[str]:
    """Packages of others that functions of a module import when they are called."""
    modules, found = _modules(), set[str]()
    for function in ast.walk(ast.parse(_files()[name].read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for module, attribute in _imported(function.body):
                ours = {module, f"{module}.{attribute}"} & modules.keys()
                found |= set[str]().union(*map(_outside, ours)) if ours else {module.partition(".")[0]}
    return found - sys.stdlib_module_names - {"penstock"}


def test_a_function_imports_only_packages_that_are_there_or_whose_extra_it_asks_for() -> None:
    core, optional = _packages(_PROJECT["dependencies"]), _PROJECT["optional-dependencies"]
    wrong, needed = {}, set[str]()
    for name in _modules():
        extras = [*_extras_of(name), *LATE.get(name, ())]
        late = _imported_late(name) - core - OF_THE_USER
        if missing := late.difference(*(_packages(optional[extra]) for extra in extras)):
            wrong[name] = sorted(missing)
        if late.difference(*(_packages(optional[extra]) for extra in _extras_of(name))):
            needed.add(name)
    assert not wrong
    assert set(LATE) == needed


def test_every_module_that_is_said_to_need_an_extra_is_there() -> None:
    assert set(NEEDS) <= _PROJECT["optional-dependencies"].keys()
    assert not [head for heads in NEEDS.values() for head in heads if head not in _modules()]
