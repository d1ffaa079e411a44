"""`penstock pipeline`: work over whole queues and directories."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "run": LazyCommand("pipeline_run", "run", "Run a declared pipeline: sources, steps, rules, sinks."),
    "check": LazyCommand("pipeline_check", "check", "Check a declared pipeline, with line and column of mistakes."),
    "plan": LazyCommand("pipeline_check", "plan", "Show what a declared pipeline would do."),
    "audit": LazyCommand("pipeline_audit", "audit", "Check everything in a data directory, and give a verdict."),
    "archive": LazyCommand("pipeline_archive", "archive", "Copy queues to partitioned Parquet, on from the last run."),
    "snapshot": LazyCommand("pipeline_snapshot", "snapshot", "Write the last value of each key as a table."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def pipeline() -> None:
    """Declared pipelines (run, check, plan), and jobs over whole queues (audit, archive, snapshot).

    A declared pipeline is a file with sources, steps, rules and sinks, which Spark runs as streams. Jobs read the files
    of a data directory, beside a running server, after it was closed, and after a crash, and ask no server. Without
    more they run in this process, or in a few for much data; --master and --remote let Spark do it.

    \b
    Examples:
      penstock pipeline check devices.yaml
      penstock pipeline run devices.yaml
      penstock pipeline audit --data ./data
      penstock pipeline archive orders --data ./data --to ./archive
      penstock pipeline snapshot devices --data ./data --to ./devices
      penstock pipeline audit --data ./data --master 'local[*]'
    """
