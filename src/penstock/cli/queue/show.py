"""`penstock queue list` and `penstock queue describe`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from penstock.cli.completions import queue_argument
from penstock.cli.connections import on_server
from penstock.cli.group.table import print_groups
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_listed, print_table
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.codecs.http.administration import QueueSummary
from penstock.core.descriptions import QueueDescription

_COLUMNS = ["queue", "namespace", "partitions", "messages", "depth", "groups", "consumers", "state"]
_NUMBERS = ["partitions", "messages", "depth", "groups", "consumers"]


@click.command("list")
@target_options
@output_option()
def list_queues(target: Target, output: str) -> None:
    """List the queues, with the number of messages and how many of them the slowest group has not settled.

    \b
    Examples:
      penstock queue list
      penstock queue list -o json
      penstock queue list --data ./data
    """

    async def act(client: AsyncClient) -> list[QueueSummary]:
        return await client.queues()

    queues = on_server(target, act)
    rows = [_row(queue) for queue in queues]
    print_listed(output, {"queues": queues}, _COLUMNS, rows, "no queues yet", numbers=_NUMBERS)


@click.command()
@queue_argument
@target_options
@output_option()
def describe(target: Target, queue: str, output: str) -> None:
    """Show a queue: its partitions, its groups, and the settings that differ from the defaults.

    \b
    Examples:
      penstock queue describe orders
      penstock queue describe orders -o yaml
    """

    async def act(client: AsyncClient) -> QueueDescription:
        return await client.queue(queue)

    found = on_server(target, act)
    if output in DATA_FORMATS:
        print_data(found, output)
    else:
        _print(found)


def _row(queue: QueueSummary) -> list[object]:
    sizes = queue.partitions, f"{queue.messages:,}", f"{queue.depth:,}", queue.groups, queue.consumers
    states = ["paused"] * queue.is_paused + ["volatile"] * queue.is_volatile
    return [queue.name, queue.namespace, *sizes, ", ".join(states) or "-"]


def _print(queue: QueueDescription) -> None:
    letters = queue.dead_letter_queue or "nowhere"
    state = (", in memory alone" if queue.is_volatile else "") + (", paused" if queue.is_paused else "")
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
    from penstock.queues.settings import parse_queue, queue_json

    usual = dict(_flat(queue_json(parse_queue({"name": queue.name, "namespace": queue.namespace}))))
    return ((path, value) for path, value in _flat(queue.settings) if usual.get(path) != value)


def _flat(settings: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
