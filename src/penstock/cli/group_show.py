"""`penstock group list` and `penstock group describe`."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.broker.broker import Broker
from penstock.broker.describing import GroupDescription, describe_group
from penstock.cli.arguments import directory_argument
from penstock.cli.group_table import print_groups
from penstock.cli.opened import group_argument, group_of, namespace_option, on_broker, queue_argument
from penstock.cli.output import output_option, print_json, print_table

_COLUMNS = ["partition", "floor", "next", "end", "lag", "in flight", "waiting"]


@click.command("list")
@directory_argument
@click.argument("queue", metavar="[QUEUE]", required=False)
@namespace_option
@output_option("table", "json")
def list_groups(directory: Path, queue: str | None, namespace: str, output: str) -> None:
    """List the groups of a queue, or of all queues of the namespace.

    `lag` counts the messages that a group has not settled and `oldest` is the age of the oldest of them; `depth` leaves
    out those that were there before the group was created or reset.

    \b
    Examples:
      penstock group list ./data
      penstock group list ./data orders -o json
    """

    async def act(broker: Broker) -> list[GroupDescription]:
        every = [found for found in broker.queues if found.namespace == namespace]
        queues = every if queue is None else [broker.queue(queue, namespace)]
        return [await describe_group(group, broker.now()) for found in queues for group in found.groups.values()]

    groups = sorted(on_broker(directory, act), key=lambda group: (group.queue, group.name, group.filter or ""))
    if output == "json":
        print_json({"groups": groups})
    elif groups:
        print_groups(groups, with_queue=True)
    else:
        click.echo("no groups yet")


@click.command()
@directory_argument
@queue_argument
@group_argument
@namespace_option
@output_option("text", "json")
def describe(directory: Path, queue: str, group: str, namespace: str, output: str) -> None:
    """Show a group, partition by partition.

    All below `floor` is settled; from `next` on nothing was handed out yet; `end` is where the partition ends.

    \b
    Examples:
      penstock group describe ./data orders billing
      penstock group describe ./data orders 'billing|eu/#' -o json
    """

    async def act(broker: Broker) -> GroupDescription:
        return await describe_group(group_of(broker, queue, namespace, group), broker.now())

    found = on_broker(directory, act)
    if output == "json":
        print_json(found)
        return
    print_groups([found], with_queue=True)
    rows = [
        (each.partition, each.floor, each.next, each.end, each.lag, each.in_flight, each.waiting)
        for each in found.partitions
    ]
    if rows:
        print_table(_COLUMNS, rows, numbers=_COLUMNS)
