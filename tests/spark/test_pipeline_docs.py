"""The Python of docs/howto/pipelines_declared.md runs beside its first declaration, in the session of all tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

_PAGE = Path(__file__).parents[2] / "docs" / "howto" / "pipelines_declared.md"
_BLOCK = re.compile(r"^```(python|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_python_of_the_page_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = _BLOCK.findall(_PAGE.read_text(encoding="utf-8"))
    Path("devices.yaml").write_text(next(text for kind, text in blocks if kind == "yaml"))
    program = "\n".join(text for kind, text in blocks if kind == "python")
    names: dict[str, object] = {}
    exec(compile(program, _PAGE.name, "exec"), names)
    assert names["spark"] is spark
