"""`penstock pipeline`: work over whole queues and directories."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyCommand, LazyGroup

COMMANDS: dict[str, LazyCommand] = {
    "run": LazyCommand("pipeline_run", "run", "Run a declared pipeline: sources, steps, rules, sinks."),
    "check": LazyCommand("pipeline_check", "check", "Check a declared pipeline, with line and column of mistakes."),
    "plan": LazyCommand("pipeline_check", "plan", "Show what a declared pipeline would do."),
    "audit": LazyCommand("pipeline_audit", "audit", "Check everything in a data directory, and give a verdict."),
    "archive": LazyCommand("pipeline_archive", "archive", "Copy queues to partitioned Parquet, on from the last run."),
    "snapshot": LazyCommand("pipeline_snapshot", "snapshot", "Write the last value of each key as a table."),
    "replay": LazyCommand("pipeline_replay", "replay", "Put messages of a time, or dead letters, into a queue again."),
    "report": LazyCommand("pipeline_report", "report", "Write a page about queues: rates, latency, lag, dead letters."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def pipeline() -> None:
    """Declared pipelines on Spark, and jobs over whole queues.

    run, check and plan take a file that declares sources, steps and sinks. Jobs read the files of a data directory,
    beside a running server, after it was closed, and after a crash. Without more they run in this process, or in a few
    for much data; --master and --remote let Spark do it.

    \b
    Examples:
      penstock pipeline run devices.yaml
      penstock pipeline audit --data ./data
      penstock pipeline archive orders --data ./data --to ./archive
      penstock pipeline snapshot devices --data ./data --to ./devices
      penstock pipeline audit --data ./data --master 'local[*]'
      penstock pipeline report --data ./data --to report.html
      penstock pipeline replay --from '$dlq/orders' --to orders --data ./data
    """
