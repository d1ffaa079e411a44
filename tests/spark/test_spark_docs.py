"""The Python of docs/howto/spark.md runs, block after block, in the session of the other tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

_PAGE = Path(__file__).parents[2] / "docs" / "howto" / "spark.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_python_of_the_page_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = "\n".join(_BLOCK.findall(_PAGE.read_text(encoding="utf-8")))
    names: dict[str, object] = {}
    exec(compile(program, _PAGE.name, "exec"), names)
    assert names["spark"] is spark
