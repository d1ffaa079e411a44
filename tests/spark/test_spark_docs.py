"""The Python of docs/howto/spark.md and spark_foreach.md runs, in the session of the other tests."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.support.mortal_server import mortal_server

import penstock
from penstock.client.flight import FlightClient

_PAGES = Path(__file__).parents[2] / "docs" / "howto"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _program(page: str) -> str:
    return "\n".join(_BLOCK.findall((_PAGES / page).read_text(encoding="utf-8")))


def test_the_python_of_the_page_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(_program("spark.md"), "spark.md", "exec"), names)
    assert names["spark"] is spark


def test_what_the_page_on_foreach_batch_writes_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    """Also when Spark was stopped before it noted that the micro-batch was done."""
    checkpoint = tmp_path / "checkpoint"
    with mortal_server(tmp_path / "server") as server, penstock.Client(server.http_url) as http:
        for queue in ("amounts", "large", "small"):
            http.create_queue(queue, {"partitions": 1})
        http.publish_many("amounts", [str(number) for number in range(50, 150)])
        program = _program("spark_foreach.md").replace("grpc://127.0.0.1:8815", server.flight_url)
        names: dict[str, Any] = {}
        exec(compile(program, "spark_foreach.md", "exec"), names)
        source = {"url": server.flight_url, "queue": "amounts", "startingOffsets": "earliest"}
        amounts = (
            spark.readStream.format("penstock")
            .options(**source)
            .load()
            .selectExpr("key", "cast(cast(value as string) as int) as amount")
        )
        for _ in range(2):
            query = names["start"](amounts, str(checkpoint))
            query.processAllAvailable()
            query.stop()
            for file in checkpoint.glob("commits/*"):
                file.unlink()
        assert _values(server.flight_url, "large") == Counter(str(number).encode() for number in range(100, 150))
        assert _values(server.flight_url, "small") == Counter(str(number).encode() for number in range(50, 100))


def _values(url: str, queue: str) -> Counter[bytes]:
    with FlightClient(url) as client:
        [partition] = client.partitions(queue)
        rows = client.read(queue, 0, partition.start, partition.end, ("value",))
        return Counter(value for batch in rows for value in batch.column("value").to_pylist())
