"""`python -m bench [NAME…]`: run benchmarks, each in a process of its own, print them and keep the numbers as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from bench import noise
from bench.against import embedded
from bench.amqp.suite import BENCHMARKS as AMQP
from bench.http.suite import BENCHMARKS as HTTP
from bench.jobs import jobs
from bench.kernels import amqp091, checksum, loops, mqtt, topics, view, window
from bench.measure import Benchmark, Comparison, Run
from bench.mqtt.suite import BENCHMARKS as MQTT
from bench.path import (
    append,
    committers,
    competing,
    fan_out,
    letters,
    many_logs,
    memory,
    opening,
    queue_scale,
    queues,
    reading,
    rebalance,
    stages,
    sync_latency,
)
from bench.place import RESULTS, FileSystem, empty_directory, file_system_of
from bench.process import BenchmarkFailed, isolated
from bench.report import comparison_lines, condition_lines, conditions, write_json
from bench.spark import batch as spark_batch
from bench.spark import beside_mqtt as spark_beside_mqtt
from bench.spark import sink as spark_sink
from bench.spark import streaming as spark_streaming
from bench.sparse.suite import BENCHMARKS as SPARSE
from bench.tables import flight_writes, sql, tables

BENCHMARKS = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (
        noise,
        append,
        committers,
        fan_out,
        sync_latency,
        reading,
        opening,
        memory,
        many_logs,
        stages,
        queues,
        queue_scale,
        competing,
        letters,
        embedded,
        rebalance,
        checksum,
        loops,
        window,
        topics,
        mqtt,
        view,
        amqp091,
        spark_batch,
        jobs,
        spark_sink,
        spark_streaming,
        spark_beside_mqtt,
        tables,
        sql,
        flight_writes,
    )
}
BENCHMARKS |= {benchmark.name: benchmark for benchmark in (*MQTT, *AMQP, *SPARSE, *HTTP)}


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--list", "list_only", is_flag=True, help="Print the names and what each measures.")
@click.option("--quick", is_flag=True, help="Sizes of 1 %: shows that it works, not how fast it is.")
@click.option("--strict", is_flag=True, help="Exit with 1 when a target is missed.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=RESULTS,
    show_default="bench/results",
    help="Where to write; its file system is what is measured.",
)
def main(names: tuple[str, ...], list_only: bool, quick: bool, strict: bool, directory: Path) -> None:
    """Run the benchmarks named, or all of them."""
    if list_only:
        for benchmark in BENCHMARKS.values():
            click.echo(f"{benchmark.name:<22}{benchmark.about}")
        return
    chosen = _chosen(names)
    directory.mkdir(parents=True, exist_ok=True)
    file_system = file_system_of(directory)
    _refuse_memory(chosen, directory, file_system)
    found = conditions(file_system, quick)
    for line in condition_lines(found, file_system):
        click.echo(line)
    results, failures = _run_all(chosen, directory, quick)
    path = RESULTS / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}.json"
    write_json(path, found, results, failures)
    _finish(path, results, failures, strict)


def _chosen(names: tuple[str, ...]) -> list[Benchmark]:
    if unknown := [name for name in names if name not in BENCHMARKS]:
        raise click.UsageError(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    return [BENCHMARKS[name] for name in names or BENCHMARKS]


def _refuse_memory(chosen: list[Benchmark], directory: Path, file_system: FileSystem) -> None:
    syncing = [benchmark.name for benchmark in chosen if benchmark.syncs]
    if file_system.is_in_memory and syncing:
        raise click.UsageError(
            f"{directory} is on {file_system.kind}, where a sync costs nothing, and {syncing[0]!r} measures syncs: "
            f"give --directory on a disk"
        )


def _run_all(
    chosen: list[Benchmark], directory: Path, quick: bool
) -> tuple[dict[str, Sequence[Comparison]], dict[str, str]]:
    results: dict[str, Sequence[Comparison]] = {}
    failures: dict[str, str] = {}
    for benchmark in chosen:
        click.echo(f"\n{benchmark.name}: {benchmark.about}")
        begun = time.perf_counter()
        try:
            with empty_directory(directory, benchmark.name) as own:
                results[benchmark.name] = isolated(benchmark.run, Run(own, quick))
        except BenchmarkFailed as error:
            failures[benchmark.name] = str(error)
            click.echo(f"  FAILED: {error}")
            continue
        for comparison in results[benchmark.name]:
            click.echo("\n".join(comparison_lines(comparison)))
        click.echo(f"  ({time.perf_counter() - begun:.0f} s)")
    return results, failures


def _finish(path: Path, results: dict[str, Sequence[Comparison]], failures: dict[str, str], strict: bool) -> None:
    """A target missed is a finding, a benchmark that broke is an error."""
    asked = [comparison for comparisons in results.values() for comparison in comparisons if comparison.target]
    missed = [comparison.subject.name for comparison in asked if comparison.is_met is False]
    click.echo(f"\n{len(asked) - len(missed)} of {len(asked)} targets met; results in {path}")
    for name in missed:
        click.echo(f"  missed: {name}")
    for name in failures:
        click.echo(f"  failed: {name}")
    if failures or (strict and missed):
        raise SystemExit(1)


if __name__ == "__main__":
    main(prog_name="python -m bench")
