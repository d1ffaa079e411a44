"""Questions about a queue through DuckDB, against the same questions about Parquet of the same rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb

from bench.measure import Benchmark, Comparison, Run, Series, interleaved, seconds
from bench.process import BenchmarkFailed
from bench.tables.tables import QUEUE, Data, fill
from penstock.tables.sql.query import QueryOptions, asked
from penstock.tables.table import QueueTable

_QUESTIONS = {
    "count": "select count(*) from {table}",
    "sum over values": "select sum(octet_length(value)) from {table}",
    "a hundred by offset": """select sum(octet_length(value)) from {table} where "offset" between 5000 and 5099""",
}


@dataclass(frozen=True, slots=True)
class _Source:
    directory: Path

    def queues(self) -> list[str]:
        return [QUEUE]

    def open_table(self, queue: str) -> QueueTable:
        return QueueTable.open(self.directory, queue)


def run(settings: Run) -> list[Comparison]:
    data = fill(settings)
    found: list[Comparison] = []
    for name, question in _QUESTIONS.items():
        answers: dict[str, object] = {}
        calls: dict[str, Callable[[], float]] = {
            "queue": partial(_taken, partial(_ask_queue, data, question), answers, "queue"),
            "parquet": partial(_taken, partial(_ask_parquet, data, question), answers, "parquet"),
        }
        samples = interleaved(settings.rounds, calls)
        if answers["queue"] != answers["parquet"]:
            raise BenchmarkFailed(f"{name}: the queue answers {answers['queue']}, Parquet {answers['parquet']}")
        series = {way: Series(f"{way}, {name}", taken) for way, taken in samples.items()}
        speed = data.rows / series["queue"].spread.median / 1e6
        found.append(Comparison(series["queue"], series["parquet"], notes={"rows": f"{speed:.2f} million rows/s"}))
    return found


def _taken(ask: Callable[[], object], answers: dict[str, object], way: str) -> float:
    def take() -> None:
        answers[way] = ask()

    return seconds(take)


def _ask_queue(data: Data, question: str) -> object:
    with asked(_Source(data.directory), question.format(table=QUEUE), QueryOptions(as_bytes=True)) as answer:
        return list(answer.rows())


def _ask_parquet(data: Data, question: str) -> object:
    connection = duckdb.connect()
    try:
        return connection.execute(question.format(table=f"'{data.parquet}'")).fetchall()
    finally:
        connection.close()


BENCHMARK = Benchmark("sql", "questions about a queue through DuckDB, against Parquet", run, syncs=False)
