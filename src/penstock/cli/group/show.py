"""`penstock group list` and `penstock group describe`."""

from __future__ import annotations

import click

from penstock.cli.completions import group_argument, queue_argument
from penstock.cli.connections import on_server
from penstock.cli.group.table import print_groups
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_table
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.core.descriptions import GroupDescription

_COLUMNS = ["partition", "floor", "next", "end", "lag", "in flight", "waiting"]


@click.command("list")
@click.argument("queue", metavar="[QUEUE]", required=False)
@target_options
@output_option()
def list_groups(target: Target, queue: str | None, output: str) -> None:
    """List the groups of a queue, or of all queues of the namespace.

    `lag` is the number of messages that a group has not settled, and `oldest` the age of the oldest of them; `depth`
    does not count messages from before the group was created or reset.

    \b
    Examples:
      penstock group list
      penstock group list orders -o json
    """

    async def act(client: AsyncClient) -> list[GroupDescription]:
        return await client.groups(queue)

    groups = on_server(target, act)
    if output in DATA_FORMATS:
        print_data({"groups": groups}, output)
    elif groups:
        print_groups(groups, with_queue=True)
    else:
        click.echo("no groups yet")


@click.command()
@queue_argument
@group_argument
@target_options
@output_option()
def describe(target: Target, queue: str, group: str, output: str) -> None:
    """Show a group, partition by partition.

    All messages below `floor` are settled; messages from `next` on have not been delivered yet; `end` is the end of the
    partition.

    \b
    Examples:
      penstock group describe orders billing
      penstock group describe orders 'billing|eu/#' -o json
    """

    async def act(client: AsyncClient) -> GroupDescription:
        return await client.group(queue, group)

    found = on_server(target, act)
    if output in DATA_FORMATS:
        print_data(found, output)
        return
    print_groups([found], with_queue=True)
    rows = [
        (each.partition, each.floor, each.next, each.end, each.lag, each.in_flight, each.waiting)
        for each in found.partitions
    ]
    if rows:
        print_table(_COLUMNS, rows, numbers=_COLUMNS)
