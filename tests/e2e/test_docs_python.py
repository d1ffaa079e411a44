"""The Python of README and docs/howto runs, block after block, each page in a directory of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_RUN_ELSEWHERE = ("spark", "pipelines_declared")
"""in the one Spark session of tests/spark"""
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _blocks() -> dict[Path, list[str]]:
    """Of each page that has some: one about configuration or commands alone need not."""
    pages = [page for page in sorted(ROOT.glob("docs/howto/*.md")) if page.stem not in _RUN_ELSEWHERE]
    pages = [ROOT / "README.md", *pages]
    found = {page: _BLOCK.findall(page.read_text(encoding="utf-8")) for page in pages}
    return {page: blocks for page, blocks in found.items() if blocks}


BLOCKS = _blocks()


def test_the_pages_with_python_are_found() -> None:
    assert {page.stem for page in BLOCKS} >= {"README", "log", "queues", "mqtt", "mqtt_clients", "client", "security"}


@pytest.mark.parametrize("page", BLOCKS, ids=lambda page: page.stem)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    program = "\n".join(BLOCKS[page])
    subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, check=True, timeout=60)
