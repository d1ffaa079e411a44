"""`penstock pipeline report`: a page about queues."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.arguments import time_option
from penstock.cli.output import output_option, print_data, print_done, print_table, progress_bar
from penstock.cli.pipeline.options import Running, data_option, namespace_option, running_options

if TYPE_CHECKING:
    from penstock.jobs.report import QueueReport


@click.command()
@data_option
@click.option(
    "--queue", "queues", metavar="QUEUE", multiple=True, help="Queue to report on. Can be repeated.  [default: all]"
)
@namespace_option
@time_option(
    "--since", "since_ms", "Only messages from this time on: ISO 8601, ms since 1970, or 2h for two hours back."
)
@time_option("--until", "until_ms", "Only messages before this time.")
@click.option(
    "--to",
    "file",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="HTML file to write; an existing one is replaced.",
)
@click.option("--title", metavar="TEXT", help="Title of the page.  [default: the directory]")
@click.option("--dry-run", is_flag=True, help="Show what would be read; write nothing.")
@running_options
@output_option("table", "json")
def report(
    directory: Path,
    queues: tuple[str, ...],
    namespace: str,
    since_ms: int | None,
    until_ms: int | None,
    file: Path,
    title: str | None,
    dry_run: bool,
    running: Running,
    output: str,
) -> None:
    """Write a self-contained HTML report about queues: throughput over time, time from publish to settlement, sizes,
    hot keys, lag of groups, retries, dead letters by reason.

    --since and --until select messages and settlements; lag is always the current lag. Settlements are included as far
    back as the broker keeps its state logs.

    \b
    Examples:
      penstock pipeline report --data ./data --to report.html
      penstock pipeline report --data ./data --queue orders --since 24h --to orders.html
    """
    from penstock.core.clock import SystemClock
    from penstock.jobs.files import appearing
    from penstock.jobs.job import run
    from penstock.jobs.ranges import TimeSpan
    from penstock.jobs.report import plan_report
    from penstock.jobs.report_page import page

    job = plan_report(directory, queues, namespace, TimeSpan(since_ms, until_ms))
    if dry_run:
        rows, pieces = sum(map(job.size, job.pieces)), len(job.pieces)
        text = f"would read about {rows:,} rows in {pieces} pieces, and write {file}"
        print_done(output, text, rows=rows, pieces=pieces, file=str(file), dry_run=True)
        return
    size_bytes = sum(piece.rows.size_bytes for piece in job.pieces if hasattr(piece, "rows"))
    with running.runner(size_bytes, len(job.pieces)) as runner, progress_bar("report") as tell:
        reports = run(job, runner, tell)
    with appearing(file) as unfinished:
        unfinished.write_text(
            page(reports, title or f"Queues of {directory}", SystemClock().now_ms()), encoding="utf-8"
        )
    _print(reports, output)


def _print(reports: list[QueueReport], output: str) -> None:
    found = [
        {
            "queue": each.queue,
            "messages": each.rows.rows,
            "bytes": each.rows.size_bytes,
            "groups": len(each.groups),
            "lag": max((counts.lag for counts in each.groups.values()), default=0),
            "dead_letters": sum(each.letters.values()),
        }
        for each in reports
    ]
    if output == "table":
        names = list(found[0])
        print_table(names, [list(each.values()) for each in found], numbers=names[1:])
    else:
        print_data({"queues": found}, output)
