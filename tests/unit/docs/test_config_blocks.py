"""Every configuration that a page shows is one that a server takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.server.config import load

ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_OF_PROMETHEUS = ("scrape_configs:", "groups:")
"""how blocks begin that are not for a server; promtool looks at the alerts"""
_OF_PIPELINES = "pipelines_declared"
"""the page whose blocks declare pipelines; test_pipelines_page looks at them"""


def _blocks() -> dict[str, str]:
    """By page and line."""
    found: dict[str, str] = {}
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))):
        text = page.read_text(encoding="utf-8")
        for block in _BLOCK.finditer(text):
            if not block[1].startswith(_OF_PROMETHEUS) and page.stem != _OF_PIPELINES:
                found[f"{page.stem}:{text.count(chr(10), 0, block.start()) + 1}"] = block[1]
    return found


BLOCKS = _blocks()


def test_the_pages_with_configurations_are_found() -> None:
    assert {name.partition(":")[0] for name in BLOCKS} >= {"security", "server", "webhooks"}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_a_configuration_of_a_page_is_taken(block: str, tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(block, encoding="utf-8")
    load(file, {}, ())
