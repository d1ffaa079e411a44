"""`penstock queue put`: a message a line."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from penstock.broker.broker import Broker
from penstock.broker.publisher import Publisher
from penstock.broker.queue import Placed, Queue
from penstock.cli.arguments import directory_argument
from penstock.cli.failures import INTERRUPTED
from penstock.cli.lines import LineReader
from penstock.cli.log_append import READY_MESSAGES, columns_of, stop_on_signal
from penstock.cli.opened import namespace_option, on_broker, queue_argument
from penstock.cli.output import output_option, print_json, print_table
from penstock.log.columns import Columns
from penstock.queues.properties import encode_user_properties


@dataclass(slots=True)
class Run:
    """Messages of one partition that the command has put; others may have come between them."""

    first: int
    last: int
    messages: int


@dataclass(frozen=True, slots=True)
class PutRequest:
    queue: str
    namespace: str
    separator: bytes
    properties: bytes
    partition: int | None
    placed: dict[int, Run] = field(default_factory=dict)
    """filled as commits come back"""


@click.command()
@directory_argument
@queue_argument
@namespace_option
@click.option(
    "--key-separator", metavar="SEP", default="", help=r"What stands before it in a line is the key (\t: a tab)."
)
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="For every message. May be repeated.")
@click.option("--partition", metavar="N", type=click.IntRange(min=0), help="This one, whatever the keys.")
@output_option("text", "json")
def put(
    directory: Path,
    queue: str,
    namespace: str,
    key_separator: str,
    headers: tuple[str, ...],
    partition: int | None,
    output: str,
) -> int:
    """Publish a message a line from standard input.

    What is ready is committed together. At the end it prints where the messages went; all of these are durable, also
    if the command failed or was interrupted behind them. Messages with the same key go to the same partition, those
    without one go to one partition together.

    \b
    Examples:
      seq 100 | penstock queue put ./data orders
      echo 'user-7:signed in' | penstock queue put ./data events --key-separator : --header source=web
    """
    separator = key_separator.replace(r"\t", "\t").encode()
    request = PutRequest(queue, namespace, separator, _properties(headers), partition)

    async def act(broker: Broker) -> int:
        return await _put_lines(broker, request, sys.stdin.fileno())

    try:
        code = on_broker(directory, act)
    except BaseException:
        if request.placed:
            _print(request, output)
        raise
    _print(request, output)
    return code


async def _put_lines(broker: Broker, request: PutRequest, descriptor: int) -> int:
    queue, publisher = broker.queue(request.queue, request.namespace), broker.publisher()
    lines = LineReader(descriptor)
    interrupted = stop_on_signal(lines)
    most_bytes = broker.options.shard.journal.max_frame_bytes // 2
    while batch := await lines.take(READY_MESSAGES, most_bytes):
        await _put_batch(broker, queue, publisher, request, batch)
    return INTERRUPTED if signal.SIGINT in interrupted else 0


async def _put_batch(
    broker: Broker, queue: Queue, publisher: Publisher, request: PutRequest, lines: list[bytes]
) -> None:
    columns = columns_of(lines, request.separator)
    if request.properties:
        columns = _with_properties(columns, request.properties)
    published = await broker.publishing.put(queue, columns, publisher, request.partition)
    for placed in published.placed:
        _note(request.placed, placed)


def _with_properties(columns: Columns, properties: bytes) -> Columns:
    """The same ones for every row, stored behind the others' bytes once for all."""
    source = bytes(columns.source)
    spans = replace(columns.value, starts=columns.value.starts[:], ends=columns.value.ends[:])
    for row in range(columns.count):
        spans.starts[row], spans.ends[row] = len(source), len(source) + len(properties)
    return replace(columns, source=source + properties, properties=spans)


def _note(found: dict[int, Run], placed: Placed) -> None:
    last = placed.base_offset + placed.rows - 1
    run = found.setdefault(placed.partition, Run(placed.base_offset, last, 0))
    run.last = last
    run.messages += placed.rows


def _properties(headers: tuple[str, ...]) -> bytes:
    pairs = [header.partition("=") for header in headers]
    if wrong := next((name for name, equals, _ in pairs if not equals or not name), None):
        raise click.BadParameter(f"{wrong!r}: write it like colour=red", param_hint="--header")
    return encode_user_properties([(name, value) for name, _, value in pairs])


def _print(request: PutRequest, output: str) -> None:
    runs = sorted(request.placed.items())
    count = sum([run.messages for _, run in runs])
    if output == "json":
        placed = [
            {"partition": partition, "first_offset": run.first, "last_offset": run.last, "messages": run.messages}
            for partition, run in runs
        ]
        print_json({"queue": request.queue, "messages": count, "placed": placed})
        return
    click.echo(f"queue {request.queue}: {count:,} messages put")
    if runs:
        columns = ["partition", "first", "last", "messages"]
        print_table(columns, [(number, run.first, run.last, run.messages) for number, run in runs], numbers=columns)
