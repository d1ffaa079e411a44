"""No module needs one that needs it, for types neither: each can be read, tested and moved without those above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def _named(tree: ast.AST) -> Iterator[str]:
    """What a module imports, wherever it does: below `if TYPE_CHECKING` and in functions, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert not node.level, f"from {'.' * node.level}{node.module}: imports name their package"
            yield from (f"{node.module}.{each.name}" for each in node.names)


def imports(source: Path) -> dict[str, set[str]]:
    """Of each module below a directory, those that it imports from there."""
    files = {file.relative_to(source).with_suffix(""): file for file in source.rglob("*.py")}
    modules = {".".join(path.parts).removesuffix(".__init__"): file for path, file in files.items()}
    found: dict[str, set[str]] = {}
    for module, file in modules.items():
        named = _named(ast.parse(file.read_text(encoding="utf-8")))
        # A name that is no module is of one.
        found[module] = {each if each in modules else each.rpartition(".")[0] for each in named} & modules.keys()
        found[module].discard(module)
    return found


def cycle(graph: dict[str, set[str]]) -> str:
    """One of them, in words; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " imports ".join(reversed(error.args[1]))
    return ""


def test_no_module_needs_one_that_needs_it() -> None:
    graph = imports(SOURCE)
    assert graph["penstock.broker.broker"] > {"penstock.broker.publish.publishing"}
    found = cycle(graph)
    assert not found, found


def test_what_is_needed_for_types_alone_counts(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("if TYPE_CHECKING:\n    from b import B\n")
    (tmp_path / "b.py").write_text("def f():\n    import a\n")
    assert cycle(imports(tmp_path)) in ("a imports b imports a", "b imports a imports b")
