"""`penstock queue create` and `update`."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.completions import queue_argument
from penstock.cli.connections import on_server
from penstock.cli.output import output_option, print_told
from penstock.cli.queue.setting_arguments import settings_options, written_settings
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.core.descriptions import QueueDescription


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option("-p", "--partitions", metavar="N", type=int, help="Number of partitions.  [default: 10]")
@settings_options
@click.option("--if-absent", is_flag=True, help="Succeed if the queue exists, whatever its settings.")
@target_options
@output_option()
def create(
    target: Target,
    name: str | None,
    partitions: int | None,
    file: Path | None,
    changes: tuple[str, ...],
    if_absent: bool,
    output: str,
) -> None:
    """Create a queue. With --data, the directory is created if it does not exist.

    Settings that are not given are taken from the templates that match the name, then from the defaults. NAME can be
    omitted if the file contains it.

    \b
    Examples:
      penstock queue create orders --partitions 4
      penstock queue create shop/mail --set retry_policy.max_retries=3 --set limits.message_ttl=24h
      penstock queue create --file orders.json
      penstock queue create orders --data ./data
    """
    written = written_settings(file, changes)
    written |= {"name": name} if name is not None else {}
    written |= {"partitions": partitions} if partitions is not None else {}
    named = written.pop("name", None)
    if not isinstance(named, str):
        raise click.UsageError("a queue needs a name: give NAME, or a file with one")

    async def act(client: AsyncClient) -> QueueDescription:
        return await client.create_queue(named, written, if_absent=if_absent)

    made = on_server(target, act, may_create=True)
    print_told(output, f"queue {made.name}: declared, partitions: {made.settings['partitions']}", made)


@click.command()
@queue_argument
@settings_options
@target_options
@output_option()
def update(target: Target, queue: str, file: Path | None, changes: tuple[str, ...], output: str) -> None:
    """Change settings of a queue.

    Settings that are not given stay as they are. The name, the namespace and strict ordering cannot be changed, and the
    number of partitions can only be increased.

    \b
    Examples:
      penstock queue update orders --set limits.max_queue_depth=500000
      penstock queue update orders --set partitions=8 --set 'topics=["sales/#"]'
    """
    written = written_settings(file, changes)
    if not written:
        raise click.UsageError("nothing to change: give --set or --file")

    async def act(client: AsyncClient) -> QueueDescription:
        await client.update_queue(queue, written)
        return await client.queue(queue)

    changed = on_server(target, act)
    print_told(output, f"queue {changed.name}: changed", changed)
