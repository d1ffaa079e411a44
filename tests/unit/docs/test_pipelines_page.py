"""docs/howto/pipelines_declared.md: its YAML is well declared, its commands run, its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.support.docs import commands
from tests.support.pipelines import loaded

from penstock.cli.main import run
from penstock.spark.pipelines.checks import check
from penstock.spark.pipelines.documentation import key_tables

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "pipelines_declared.md"
EXAMPLE = Path(__file__).parents[3] / "examples" / "pipeline" / "devices.yaml"
_YAML = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FIRST, *PARTS = _YAML.findall(PAGE.read_text(encoding="utf-8"))


def over(below: dict[str, object], above: dict[str, object]) -> dict[str, object]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = over(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


def test_the_first_declaration_holds(tmp_path: Path) -> None:
    assert check(loaded(tmp_path, FIRST)) == []


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.split(":")[0])
def test_a_part_holds_beside_the_first(tmp_path: Path, part: str) -> None:
    check(loaded(tmp_path, yaml.safe_dump(over(yaml.safe_load(FIRST), yaml.safe_load(part)))))


def test_the_commands_of_the_page_end_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("devices.yaml").write_text(FIRST)
    asked = [command.text.partition(" > ")[0].split()[1:] for command in commands(PAGE)]
    assert len(asked) == 4
    assert [run(words) for words in asked] == [0, 0, 0, 0]


def test_the_tables_of_keys_are_those_of_the_code() -> None:
    stale = "put the output of `python -m penstock.spark.pipelines.documentation` under ## Keys"
    assert PAGE.read_text(encoding="utf-8").endswith(key_tables()), stale


def test_the_example_is_no_longer_than_60_lines_and_holds(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert check(loaded(tmp_path, text)) == []
