"""`penstock pipeline`: work over whole queues and directories."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyCommand, LazyGroup

COMMANDS: dict[str, LazyCommand] = {
    "run": LazyCommand("pipeline.run", "run", "Run a pipeline declared in YAML."),
    "check": LazyCommand("pipeline.check", "check", "Check a pipeline file; errors have line and column."),
    "plan": LazyCommand("pipeline.check", "plan", "Show what a pipeline would do."),
    "audit": LazyCommand("pipeline.audit", "audit", "Verify everything in a data directory."),
    "archive": LazyCommand("pipeline.archive", "archive", "Copy new messages of queues to partitioned Parquet."),
    "snapshot": LazyCommand("pipeline.snapshot", "snapshot", "Write the last value of each key as a table."),
    "replay": LazyCommand("pipeline.replay", "replay", "Publish old messages or dead letters to a queue again."),
    "report": LazyCommand("pipeline.report", "report", "Write an HTML report: rates, latency, lag, dead letters."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def pipeline() -> None:
    """Run pipelines declared in a file on Spark, and jobs over whole queues.

    run, check and plan take a file that declares sources, steps and sinks. The other commands are jobs that read the
    files of a data directory, also while a server is running on it. Jobs run in this process, or in several if there is
    a lot of data; with --master or --remote they run on Spark.

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
