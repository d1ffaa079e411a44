"""`penstock pipeline replay`: messages again, as they were or changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.arguments import parse_time
from penstock.cli.output import output_option, print_data, print_table, progress_bar
from penstock.cli.pipeline.options import Running, running_options
from penstock.cli.table_source import Source, source_options
from penstock.core.clock import SystemClock
from penstock.core.errors import InvalidArgument
from penstock.core.units import parse_duration

if TYPE_CHECKING:
    from penstock.jobs.job import Runner
    from penstock.jobs.ranges import TimeSpan
    from penstock.jobs.replay import Replayed
    from penstock.jobs.replay_plan import ReplayFile
    from penstock.jobs.replay_transform import Transform


@click.command()
@click.option("--from", "from_queue", metavar="QUEUE", required=True, help="Source queue; $dlq/NAME for dead letters.")
@click.option("--to", "to_queue", metavar="QUEUE", required=True, help="Target queue.")
@click.option(
    "--since",
    metavar="TIME",
    help="Only messages from this time on: ISO 8601, ms since 1970, or 2h for two hours back.",
)
@click.option("--until", metavar="TIME", help="Only messages before this time.")
@click.option("--sql", metavar="QUERY", help="SQL that transforms each chunk.")
@click.option("--python", metavar="MODULE:FUNCTION", help="Python function that transforms each Arrow batch.")
@click.option("--bytes", "as_bytes", is_flag=True, help="With --sql: key, value and values of headers are BLOB.")
@click.option(
    "--checkpoint",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Progress file; removed when the replay is done.  [default: QUEUE.replay of the target queue]",
)
@click.option(
    "--wait",
    metavar="DURATION",
    default="1m",
    show_default=True,
    help="How long to wait while the target queue is full.",
)
@click.option("--dry-run", is_flag=True, help="Count what would be written; write nothing.")
@source_options
@running_options
@output_option("table", "json")
def replay(
    source: Source,
    running: Running,
    from_queue: str,
    to_queue: str,
    since: str | None,
    until: str | None,
    sql: str | None,
    python: str | None,
    as_bytes: bool,
    checkpoint: Path | None,
    wait: str,
    dry_run: bool,
    output: str,
) -> None:
    """Publish messages of a time range, or dead letters, to a queue again; each exactly once, even if interrupted.

    With --url, messages are written to a server over Arrow Flight; with --data, to a data directory that no server has
    open. All messages present at the start are replayed, in chunks that are committed one by one; an interrupted replay
    continues when it is run again with the same options. Messages get a header replayed-from with queue, partition and
    offset; headers that describe why a message became a dead letter are removed.

    --sql and --python transform one chunk at a time: they can drop, change and multiply rows. The result must have a
    column value, and can have key, headers, topic and offset (in SQL "offset"); the offset is needed for the header
    replayed-from to name the message.

    With --processes, --master or --remote several chunks are transformed in parallel, and still published in order.
    With --data, the rows are stored in files next to the checkpoint in between.

    \b
    Examples:
      penstock pipeline replay --from orders --since 2h --to orders-again --data ./data
      penstock pipeline replay --from '$dlq/orders' --to orders --url grpc://127.0.0.1:8815
      penstock pipeline replay --from orders --to big-orders --data ./data \\
        --sql "select key, value, headers, \\"offset\\" from orders where (value::json->>'total')::int > 100"
      penstock pipeline replay --from orders --to orders-v2 --python upgrade:batch --dry-run --data ./data
      penstock pipeline replay --from orders --to orders-v2 --url grpc://127.0.0.1:8815 --master 'local[*]'
    """
    from penstock.cli.replaying import ReplayRequest, count_replay
    from penstock.cli.replaying import replay as run_replay

    given = {"since": since, "until": until, "sql": sql, "python": python, "bytes": "yes" if as_bytes else None}
    request = ReplayRequest(
        source,
        from_queue,
        to_queue,
        _span(since, until),
        _transform(sql, python, as_bytes),
        checkpoint,
        parse_duration(wait),
        tuple((name, value) for name, value in given.items() if value is not None),
    )
    with _runner(running, python is not None) as runner, progress_bar("replay") as tell:
        done = count_replay(request, runner, tell) if dry_run else run_replay(request, runner, tell, _say_goes_on)
    _print(done, output, "would write" if dry_run else "wrote")


@contextmanager
def _runner(running: Running, has_python: bool) -> Iterator[Runner]:
    """One process unless told otherwise: what limits a replay is the queue that is written to."""
    with running.runner(0, 1) as runner:
        if has_python and (running.master or running.remote):
            from penstock.spark.connect import carry_modules

            carry_modules(Path.cwd())
        yield runner


def _say_goes_on(file: ReplayFile) -> None:
    click.echo(f"continuing: {len(file.done)} of {len(file.plan.pieces)} chunks are done ({file.path})", err=True)


def _transform(sql: str | None, python: str | None, as_bytes: bool) -> Transform:
    from penstock.jobs.replay_transform import PythonTransform, SqlTransform, unchanged

    if sql is not None and python is not None:
        raise click.UsageError("--sql and --python exclude each other: give one of them")
    if sql is not None:
        return SqlTransform(sql, as_bytes)
    return unchanged if python is None else PythonTransform.named(python)


def _span(since: str | None, until: str | None) -> TimeSpan:
    from penstock.jobs.ranges import TimeSpan

    now_ms = SystemClock().now_ms()
    try:
        return TimeSpan(*(None if text is None else parse_time(text, now_ms) for text in (since, until)))
    except InvalidArgument as error:
        raise click.UsageError(str(error)) from error


def _print(replayed: Replayed, output: str, verb: str) -> None:
    if output == "table":
        print_table(["pieces", "rows"], [[replayed.pieces, replayed.rows]], numbers=["pieces", "rows"])
        click.echo(f"penstock: {verb} {replayed.rows} messages", err=True)
    else:
        print_data({"pieces": replayed.pieces, "rows": replayed.rows}, output)
