"""`penstock pipeline snapshot`: the last value of each key as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.arguments import DIRECTORY
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_table, progress_bar, size_text
from penstock.cli.pipeline.options import (
    Running,
    compression_option,
    data_option,
    dry_run_option,
    namespace_option,
    queues_of,
    running_options,
)

if TYPE_CHECKING:
    from penstock.jobs.snapshot import SnapshotPlan, SnapshotReport


@click.command()
@click.argument("queue")
@data_option
@namespace_option
@click.option(
    "--to",
    "target",
    metavar="DIR",
    type=DIRECTORY,
    required=True,
    help="Directory of the table; an existing table is replaced.",
)
@compression_option
@dry_run_option
@running_options
@output_option("table", "json")
def snapshot(
    queue: str,
    directory: Path,
    namespace: str,
    target: Path,
    compression: str,
    dry_run: bool,
    running: Running,
    output: str,
) -> None:
    """Write the last message of each key of a queue as a table of Parquet files.

    Keys whose last message is empty (a tombstone) and messages without a key are not in the table. If a key moved to
    another partition because partitions were added, its newest message is used. An interrupted run continues with the
    same messages; an existing table is kept until the new one is complete.

    \b
    Examples:
      penstock pipeline snapshot devices --data ./data --to ./devices
      penstock pipeline snapshot devices --data ./data --to ./devices --dry-run
    """
    from penstock.jobs.snapshot import SnapshotRequest, plan_snapshot
    from penstock.jobs.snapshot import snapshot as run_snapshot

    names = queues_of(directory, [queue], namespace)
    if len(names) > 1:
        raise click.UsageError(f"{queue} matches {', '.join(names[:5])}: a snapshot is of one queue")
    request = SnapshotRequest(directory, names[0], target, namespace, compression)
    plan = plan_snapshot(request)
    if dry_run:
        _print_plan(plan, output)
        return
    with running.runner(plan.size_bytes, len(plan.ranges)) as runner, progress_bar("reading") as advance:
        _print(run_snapshot(request, runner, advance), output)


def _print_plan(plan: SnapshotPlan, output: str) -> None:
    names = ("partition", "first", "end", "rows")
    rows = [(each.partition, each.start, each.stop, each.rows) for each in plan.ranges]
    if output in DATA_FORMATS:
        print_data({"would_read": [dict(zip(names, row, strict=True)) for row in rows]}, output)
        return
    print_table(names, rows, numbers=names)
    click.echo(f"about {plan.rows:,} messages, {size_text(plan.size_bytes)} would be read; nothing was changed")


def _print(report: SnapshotReport, output: str) -> None:
    if output in DATA_FORMATS:
        print_data(report, output)
        return
    click.echo(f"{report.target}: {report.rows:,} keys of queue {report.queue}")
    if report.moved_keys:
        click.echo(f"{report.moved_keys:,} older messages of keys that moved to another partition were left out")
    if report.unkeyed:
        click.echo(f"{report.unkeyed:,} messages without a key were left out")
