"""`penstock pipeline replay`: messages again, as they were or changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.arguments import parse_time
from penstock.cli.output import output_option, print_data, print_table, progress_bar
from penstock.cli.table_source import Source, source_options
from penstock.core.clock import SystemClock
from penstock.core.errors import InvalidArgument
from penstock.core.units import parse_duration
from penstock.queues.names import canonical_queue

if TYPE_CHECKING:
    from penstock.jobs.ranges import TimeSpan
    from penstock.jobs.replay import Patience, Replay, Replayed
    from penstock.jobs.replay_plan import ReplayPiece
    from penstock.jobs.replay_transform import Transform


@click.command()
@click.option(
    "--from", "from_queue", metavar="QUEUE", required=True, help="Whose messages; $dlq/NAME for dead letters."
)
@click.option("--to", "to_queue", metavar="QUEUE", required=True, help="Where they go.")
@click.option("--since", metavar="TIME", help="From this time on: ISO 8601, ms since 1970, or 2h for two hours back.")
@click.option("--until", metavar="TIME", help="Up to, not including, this time.")
@click.option("--sql", metavar="QUERY", help="What becomes of them: a query over the queue, asked for each piece.")
@click.option("--python", metavar="MODULE:FUNCTION", help="What becomes of them: a function over batches of Arrow.")
@click.option("--bytes", "as_bytes", is_flag=True, help="With --sql: key, value and values of headers are BLOB.")
@click.option(
    "--checkpoint",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where it is kept how far it is, until it is done.  [default: QUEUE.replay, of the queue they go to]",
)
@click.option("--wait", metavar="DURATION", default="1m", show_default=True, help="For a queue that is full.")
@click.option("--dry-run", is_flag=True, help="Count what would be written, and write nothing.")
@source_options
@output_option("table", "json")
def replay(
    source: Source,
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
    """Put the messages of a time, or dead letters, into a queue again; each once, also if it is stopped and run again.

    A server is written to through its Flight (--url); a directory (--data) that no server has is opened. What there is
    when it begins is replayed, in pieces that are each committed as a whole; run again with the same options it goes
    on. Messages get a header replayed-from with queue, partition and offset, and dead letters lose those that say why
    they died.

    --sql and --python work on pieces: they choose, change and multiply rows. What they give has a column value, and may
    have key, headers, topic and offset (in SQL "offset"), which makes the header name the message.

    \b
    Examples:
      penstock pipeline replay --from orders --since 2h --to orders-again --data ./data
      penstock pipeline replay --from '$dlq/orders' --to orders --url grpc://127.0.0.1:8815
      penstock pipeline replay --from orders --to big-orders --data ./data \\
        --sql "select key, value, headers, \\"offset\\" from orders where (value::json->>'total')::int > 100"
      penstock pipeline replay --from orders --to orders-v2 --python upgrade:batch --dry-run --data ./data
    """
    from penstock.jobs.replay import Patience, Replay

    span, patience = _span(since, until), Patience(parse_duration(wait))
    asked = {"from": canonical_queue(from_queue), "to": canonical_queue(to_queue), "at": str(source)}
    given = {"since": since, "until": until, "sql": sql, "python": python, "bytes": "yes" if as_bytes else None}
    asked |= {name: value for name, value in given.items() if value is not None}
    work = Replay(asked["from"], partial(source.open_table, asked["from"]), _transform(sql, python, as_bytes))
    if dry_run:
        with progress_bar("replay") as tell:
            _print(work.counted(_pieces(work, span), tell), output, "would write")
        return
    file = checkpoint or _default_file(asked["to"])
    _print(_replayed(work, source, asked, lambda: _pieces(work, span), file, patience), output, "wrote")


def _replayed(
    work: Replay,
    source: Source,
    asked: dict[str, str],
    make_pieces: Callable[[], list[ReplayPiece]],
    path: Path,
    patience: Patience,
) -> Replayed:
    """The directory is opened before it is planned: what only its journal has is a row then."""
    from penstock.cli.replay_sinks import sink_of
    from penstock.jobs.replay_plan import ReplayFile

    with sink_of(source, asked["to"]) as sink:
        file = ReplayFile.opened(path, asked, make_pieces)
        with closing(file), progress_bar("replay") as tell:
            if file.done:
                click.echo(f"goes on: {len(file.done)} of {len(file.plan.pieces)} pieces are done ({path})", err=True)
            done = work.run(file, sink, tell, patience)
        file.remove()
        return done


def _pieces(work: Replay, span: TimeSpan) -> list[ReplayPiece]:
    from penstock.jobs.replay_plan import plan_pieces

    with closing(work.open_table()) as table:
        return plan_pieces(table, span)


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


def _default_file(queue: str) -> Path:
    return Path(re.sub("[^A-Za-z0-9_.-]", "_", queue) + ".replay")


def _print(replayed: Replayed, output: str, verb: str) -> None:
    if output == "table":
        print_table(["pieces", "rows"], [[replayed.pieces, replayed.rows]], numbers=["pieces", "rows"])
        click.echo(f"penstock: {verb} {replayed.rows} messages", err=True)
    else:
        print_data({"pieces": replayed.pieces, "rows": replayed.rows}, output)
