"""A README of a folder names the modules that are there, all of them and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "penstock"
READMES = sorted(SOURCE.rglob("README.md"))
_SPAN = re.compile(r"`([^`]+)`")
_NAME = re.compile(r"(?:[a-z0-9_]+/)*([a-z0-9_]+)(?:\.py|\.pyx|/)?")
"""of a module or a folder, with folders before it"""
_HEADING = re.compile(r"## ([a-z0-9_]+)(?:/|:|$)")
_LIVES = "Who lives here:"


def _modules(folder: Path) -> set[str]:
    """Files and folders of Python in it."""
    files = {file.stem for pattern in ("*.py", "*.pyx") for file in folder.glob(pattern)}
    return (files | {package.parent.name for package in folder.glob("*/__init__.py")}) - {"__init__"}


def _names(text: str) -> set[str]:
    """Those of modules and folders; what is code is left out."""
    return {span for span in _SPAN.findall(text) if _NAME.fullmatch(span)}


def _is_there(place: Path, name: str, anywhere: bool) -> bool:
    """Below it, if the README says of the folder that it is named of its rooms too."""
    path = name.removesuffix("/").removesuffix(".pyx").removesuffix(".py")
    wanted = [path] if name.endswith("/") else [f"{path}.py", f"{path}.pyx", path]
    return any((place / each).exists() or (anywhere and any(place.rglob(each))) for each in wanted)


def _listed(readme: Path) -> list[tuple[Path, str, bool]]:
    """What it lists as modules: first columns of tables and who lives there. With the folder that is meant, and whether
    rooms of that folder are too."""
    found: list[tuple[Path, str, bool]] = []
    place, anywhere, lives = readme.parent, False, False
    for line in readme.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = _HEADING.match(line)
            anywhere = heading is not None and (readme.parent / heading[1]).is_dir()
            place = readme.parent / heading[1] if heading is not None and anywhere else readme.parent
        lives = line.startswith(_LIVES) or (lives and bool(line))
        text = line.split("|")[1] if line.startswith("| ") else line if lives else ""
        found += [(place, name, anywhere) for name in sorted(_names(text))]
    return found


def _said(readme: Path) -> set[str]:
    """All that a README names, whatever its place."""
    text = readme.read_text(encoding="utf-8")
    names = {match[1] for name in _names(text) if (match := _NAME.fullmatch(name))}
    return names | {match[1] for line in text.splitlines() if (match := _HEADING.match(line))}


def _readme_of(folder: Path) -> Path | None:
    """Its own, or that of the next folder above which has one."""
    inside = [each for each in (folder, *folder.parents) if each.is_relative_to(SOURCE)]
    return next((each / "README.md" for each in inside if (each / "README.md").exists()), None)


@pytest.mark.parametrize("readme", READMES, ids=lambda page: str(page.parent.relative_to(SOURCE)))
def test_every_module_that_a_readme_lists_is_there(readme: Path) -> None:
    assert [name for place, name, anywhere in _listed(readme) if not _is_there(place, name, anywhere)] == []


@pytest.mark.parametrize(
    "folder",
    [package.parent for package in sorted(SOURCE.rglob("__init__.py")) if _readme_of(package.parent)],
    ids=lambda folder: str(folder.relative_to(SOURCE)),
)
def test_every_module_of_a_folder_is_in_its_readme(folder: Path) -> None:
    readme = _readme_of(folder)
    assert readme is not None
    assert sorted(_modules(folder) - _said(readme)) == []
