"""`penstock queue list` and `penstock queue describe`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from penstock.broker.broker import Broker
from penstock.broker.describing import QueueDescription, describe_queue
from penstock.cli.arguments import directory_argument
from penstock.cli.group_table import print_groups
from penstock.cli.opened import namespace_option, on_broker, queue_argument
from penstock.cli.output import output_option, print_json, print_table
from penstock.queues.settings import parse_queue, queue_json

_COLUMNS = ["queue", "namespace", "partitions", "messages", "depth", "groups", "state"]
_NUMBERS = ["partitions", "messages", "depth", "groups"]


@click.command("list")
@directory_argument
@click.option("--namespace", metavar="NAME", help="Only the queues of this one.  [default: all]")
@output_option("table", "json")
def list_queues(directory: Path, namespace: str | None, output: str) -> None:
    """List the queues: how many messages they keep, and how many of them the slowest group has not settled.

    \b
    Examples:
      penstock queue list ./data
      penstock queue list ./data -o json
    """

    async def act(broker: Broker) -> list[QueueDescription]:
        wanted = [queue for queue in broker.queues if namespace in (None, queue.namespace)]
        return [await describe_queue(queue, broker.now()) for queue in wanted]

    queues = sorted(on_broker(directory, act), key=lambda queue: (queue.namespace, queue.name))
    if output == "json":
        print_json({"queues": queues})
    elif queues:
        print_table(_COLUMNS, [_row(queue) for queue in queues], numbers=_NUMBERS)
    else:
        click.echo("no queues yet")


@click.command()
@directory_argument
@queue_argument
@namespace_option
@output_option("text", "json")
def describe(directory: Path, queue: str, namespace: str, output: str) -> None:
    """Show a queue: its partitions, its groups, and the settings that are not the defaults.

    \b
    Examples:
      penstock queue describe ./data orders
      penstock queue describe ./data orders -o json
    """

    async def act(broker: Broker) -> QueueDescription:
        return await describe_queue(broker.queue(queue, namespace), broker.now())

    found = on_broker(directory, act)
    if output == "json":
        print_json(found)
    else:
        _print(found)


def _row(queue: QueueDescription) -> list[object]:
    sizes = queue.settings["partitions"], f"{queue.messages:,}", f"{queue.depth:,}", len(queue.groups)
    return [queue.name, queue.namespace, *sizes, "paused" if queue.is_paused else "-"]


def _print(queue: QueueDescription) -> None:
    letters = queue.dead_letter_queue or "nowhere"
    state = ", paused" if queue.is_paused else ""
    click.echo(
        f"{queue.name}: {queue.settings['partitions']} partitions, {queue.messages:,} messages, "
        f"depth {queue.depth:,}, dead letters to {letters}{state}"
    )
    if queue.partitions:
        rows = [(each.partition, each.start, each.end, each.messages) for each in queue.partitions]
        columns = ["partition", "start", "end", "messages"]
        print_table(columns, rows, numbers=columns)
    if queue.groups:
        print_groups(queue.groups)
    if changed := list(_changed(queue)):
        print_table(["setting", "value"], changed)


def _changed(queue: QueueDescription) -> Iterator[tuple[str, object]]:
    """Settings that a queue of that name would not have by itself."""
    usual = dict(_flat(queue_json(parse_queue({"name": queue.name, "namespace": queue.namespace}))))
    return ((path, value) for path, value in _flat(queue.settings) if usual.get(path) != value)


def _flat(settings: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
