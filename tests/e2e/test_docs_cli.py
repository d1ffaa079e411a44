"""Every example of docs/cli.md runs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import COMMAND, ENVIRONMENT

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks() -> Iterator[tuple[int, list[str]]]:
    """(line of the page, commands) of each block; a line that ends with a backslash goes on."""
    text = PAGE.read_text()
    for block in _BLOCK.finditer(text):
        joined = block[1].replace("\\\n", " ")
        commands = [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]
        yield text.count("\n", 0, block.start()) + 1, commands


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment in which `penstock` is this tree's."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    script = binaries / "penstock"
    script.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    script.chmod(0o755)
    return {**ENVIRONMENT, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}


def test_every_example_of_the_page_ends_well(tmp_path: Path, shell: dict[str, str]) -> None:
    """In the order of the page and in one directory, as a reader would type them."""
    place = tmp_path / "reader"
    place.mkdir()
    count = 0
    for line, commands in _blocks():
        for command in commands:
            ran = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command], cwd=place, env=shell, capture_output=True, timeout=120
            )
            assert ran.returncode == 0, (line, command, ran.stdout[-2000:], ran.stderr[-2000:])
            count += 1
    assert count > 10
