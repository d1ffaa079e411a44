"""Pages name what is there: methods, and files that are linked."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "penstock"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
_METHOD = re.compile(r"\b([A-Z][A-Za-z]+)\.(?!md\b)([a-z_]+)\b")
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def _members() -> dict[str, set[str]]:
    """Of each class of the package, by its name: methods and attributes."""
    found: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(_named_in(node))
    return found


def _named_in(node: ast.ClassDef) -> set[str]:
    inside = list(ast.walk(node))
    methods = {each.name for each in inside if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    return methods | {each.attr for each in inside if isinstance(each, ast.Attribute)}


def test_every_method_that_a_page_names_is_there() -> None:
    members = _members()
    named = set(_METHOD.findall(ARCHITECTURE.read_text(encoding="utf-8")))
    assert len(named) > 30
    for readme in SOURCE.rglob("README.md"):
        named.update(_METHOD.findall(readme.read_text(encoding="utf-8")))
    assert sorted(f"{kind}.{method}" for kind, method in named if method not in members.get(kind, ())) == []


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(SOURCE.rglob("README.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_files_that_a_page_links_to_are_there(page: Path) -> None:
    linked = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in linked if not (page.parent / link).exists()] == []
