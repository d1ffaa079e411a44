"""`penstock pipeline archive`: queues as partitioned Parquet, on from the last run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.arguments import DIRECTORY, time_option
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
    from penstock.jobs.archive import ArchivePlan, ArchiveReport


@click.command()
@click.argument("queues", metavar="QUEUE…", nargs=-1, required=True)
@data_option
@namespace_option
@click.option(
    "--to", "target", metavar="DIR", type=DIRECTORY, required=True, help="Directory of the archive; created if missing."
)
@time_option(
    "--since", "since_ms", "Only messages from this time on: ISO 8601, ms since 1970, or a duration back (2h)."
)
@time_option("--until", "until_ms", "Only messages before this time.")
@compression_option
@dry_run_option
@running_options
@output_option("table", "json")
def archive(
    queues: tuple[str, ...],
    directory: Path,
    namespace: str,
    target: Path,
    since_ms: int | None,
    until_ms: int | None,
    compression: str,
    dry_run: bool,
    running: Running,
    output: str,
) -> None:
    """Copy messages that are not in the archive yet to Parquet files.

    QUEUE is a name, or a pattern with * and ?. Files are written to queue=…/date=…/partition=…; _manifest.json lists
    them with their offsets, row counts and checksums. If a run is interrupted, the next one finishes it, and every
    message is in the archive exactly once. Messages that retention deleted before they were archived are reported and
    counted in the manifest.

    \b
    Examples:
      penstock pipeline archive orders --data ./data --to ./archive
      penstock pipeline archive 'sensors/*' --data ./data --to ./archive --until 1d
      penstock pipeline archive orders --data ./data --to ./archive --dry-run
    """
    from penstock.jobs.archive import ArchiveRequest, plan_archive
    from penstock.jobs.archive import archive as run_archive
    from penstock.jobs.ranges import TimeSpan

    names, span = queues_of(directory, queues, namespace), TimeSpan(since_ms, until_ms)
    request = ArchiveRequest(directory, names, target, namespace, span, compression)
    plan = plan_archive(request)
    if dry_run:
        _print_plan(plan, output)
        return
    with running.runner(plan.size_bytes, len(plan.pieces)) as runner, progress_bar("archiving") as advance:
        _print(run_archive(request, runner, advance), output)


def _print_plan(plan: ArchivePlan, output: str) -> None:
    rows = [(p.source.queue, p.source.partition, p.source.start, p.source.stop, p.source.rows) for p in plan.pieces]
    if output in DATA_FORMATS:
        names = ("queue", "partition", "first", "end", "rows")
        print_data({"would_archive": [dict(zip(names, row, strict=True)) for row in rows]}, output)
        return
    print_table(("queue", "partition", "first", "end", "rows"), rows, numbers=("partition", "first", "end", "rows"))
    click.echo(f"about {plan.rows:,} rows, {size_text(plan.size_bytes)} would be archived; nothing was changed")


def _print(report: ArchiveReport, output: str) -> None:
    for lost in report.lost:
        click.echo(
            f"warning: offsets {lost.first}..{lost.end} of partition {lost.partition} of queue {lost.queue!r} were "
            f"trimmed before they were archived: archive more often, or keep messages for longer",
            err=True,
        )
    if output in DATA_FORMATS:
        print_data(report, output)
        return
    click.echo(
        f"{report.archive}: {report.rows:,} rows in {report.files} files, {size_text(report.size_bytes)}, were added; "
        f"it has {report.total_rows:,} rows in {report.total_files} files"
    )
