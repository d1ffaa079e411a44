"""Audit and snapshot of 3 GB, in this process, in two and on Spark, against a plain script that does it once."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from bench.jobs import plain
from bench.measure import Benchmark, Comparison, Run, Series, Target, interleaved, seconds
from bench.process import BenchmarkFailed
from penstock.jobs.audit import audit_job
from penstock.jobs.findings import Verdict
from penstock.jobs.job import Runner
from penstock.jobs.job import run as run_job
from penstock.jobs.local import InProcesses, InThisProcess
from penstock.jobs.snapshot import SnapshotRequest, snapshot
from penstock.log.columns import Columns
from penstock.log.shard import Shard
from penstock.queues.names import data_log
from penstock.spark.jobs import OnSpark, job_session

ROWS = int(os.environ.get("BENCH_JOBS_ROWS", "12000000"))
"""of 256 bytes: 3 GB; fewer where the machine is small"""
_VALUE_BYTES, _PARTITIONS, _QUEUE = 256, 4, "bench"
_TEMPLATES, _TEMPLATE_ROWS = 50, 10_000
_STARTED = "two processes"
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class _Data:
    directory: Path
    place: Path
    rows: int
    keys: int
    numbers: count[int]


def run(settings: Run) -> list[Comparison]:
    data = _filled(settings)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])
    with job_session("local[2]") as session:
        runners: dict[str, Runner] = {
            "one process": InThisProcess(),
            _STARTED: InProcesses(2),
            "Spark, once it runs": OnSpark(session),
        }
        found: list[Comparison] = []
        for name, script, job in (("audit", _plain_audit, _audit), ("snapshot", _plain_snapshot, _snapshot)):
            calls: dict[str, Callable[[], float]] = {"script": partial(script, data)}
            calls |= {way: partial(job, data, runner) for way, runner in runners.items()}
            for call in calls.values():
                call()  # caches and Spark's workers are warm
            samples = interleaved(settings.rounds, calls)
            found += _comparisons(data, name, samples)
    return found


def _comparisons(data: _Data, name: str, samples: dict[str, tuple[float, ...]]) -> list[Comparison]:
    size_bytes = data.rows * _VALUE_BYTES
    series = {way: Series(f"{name}, {way}", taken, bytes=size_bytes) for way, taken in samples.items()}
    script = series.pop("script")
    # Two processes are started each time, which is most of what they take here: said, and asked of nobody.
    asked = {way: None if way == _STARTED else Target(">=", 0.8) for way in series}
    return [Comparison(one, script, target=asked[way]) for way, one in series.items()]


def _audit(data: _Data, runner: Runner) -> float:
    def check() -> None:
        report = run_job(audit_job(data.directory), runner)
        if report.verdict is not Verdict.OK or report.checked.records < data.rows:
            raise BenchmarkFailed(f"the audit found {report.findings[:3]} in {report.checked.records} records")

    return seconds(check)


def _plain_audit(data: _Data) -> float:
    return seconds(lambda: _expect(plain.audit(data.directory) >= data.rows))


def _snapshot(data: _Data, runner: Runner) -> float:
    target = data.place / f"table-{next(data.numbers)}"
    request = SnapshotRequest(data.directory, _QUEUE, target)
    taken_s = seconds(lambda: _expect(snapshot(request, runner).rows == data.keys))
    shutil.rmtree(target)
    return taken_s


def _plain_snapshot(data: _Data) -> float:
    target = data.place / "plain.parquet"
    return seconds(lambda: _expect(plain.snapshot(data.directory, _QUEUE, target) == data.keys))


def _expect(is_right: bool) -> None:
    if not is_right:
        raise BenchmarkFailed("not all rows or keys came back")


def _filled(settings: Run) -> _Data:
    rows = settings.size(ROWS, _TEMPLATE_ROWS) // _TEMPLATE_ROWS * _TEMPLATE_ROWS
    directory = settings.directory / "data"
    asyncio.run(_append(directory, rows))
    keys = min(rows, _TEMPLATES * _TEMPLATE_ROWS)
    return _Data(directory, settings.directory, rows, keys, count())


async def _append(directory: Path, rows: int) -> None:
    """The same keys again and again, each in its own partition."""
    async with await Shard.open(directory) as shard:
        logs = [await shard.create(data_log("default", _QUEUE, number)) for number in range(_PARTITIONS)]
        commits = rows // _TEMPLATE_ROWS
        templates = [_template(number).scatter(_PARTITIONS) for number in range(min(commits, _TEMPLATES))]
        for number in range(commits):
            parts = [(logs[partition], columns) for partition, columns in templates[number % _TEMPLATES]]
            await shard.commit(parts)


def _template(number: int) -> Columns:
    whole = os.urandom(_TEMPLATE_ROWS * _VALUE_BYTES)
    values = [whole[at : at + _VALUE_BYTES] for at in range(0, len(whole), _VALUE_BYTES)]
    first = number * _TEMPLATE_ROWS
    return Columns.of(values, keys=[b"device-%07d" % key for key in range(first, first + _TEMPLATE_ROWS)])


BENCHMARK = Benchmark(
    "jobs", "audit and snapshot of 3 GB against a plain script, without Spark's start", run, syncs=False
)
