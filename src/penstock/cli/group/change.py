"""`penstock group create`, `commit`, `pause`, `resume` and `delete`."""

from __future__ import annotations

import click

from penstock.cli.completions import group_argument, queue_argument
from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.delivery import set_paused
from penstock.cli.failures import NotThere
from penstock.cli.output import output_option, print_done, print_told
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.core.descriptions import GroupDescription

PLACES = "earliest, latest, an offset, a time (ISO 8601), or a duration back from now (1h)."


@click.command()
@queue_argument
@group_argument
@click.option("--start", metavar="START", default="earliest", show_default=True, help=f"Starting position: {PLACES}")
@target_options
@output_option()
def create(target: Target, queue: str, group: str, start: str, output: str) -> None:
    """Create a group at a position. Otherwise its first consumer creates the group, which then starts at the earliest
    message.

    \b
    Examples:
      penstock group create orders billing
      penstock group create orders 'eu-audit|eu/#' --start latest
    """

    async def act(client: AsyncClient) -> GroupDescription:
        return await client.create_group(queue, group, start)

    made = on_server(target, act)
    print_told(output, f"group {group} of queue {made.queue}: created, {made.lag:,} messages to consume", made)


@click.command()
@queue_argument
@group_argument
@click.argument("partition", metavar="PARTITION", type=click.IntRange(min=0))
@click.argument("offset", metavar="OFFSET", type=click.IntRange(min=0))
@click.option("--dry-run", is_flag=True, help="Show the change; change nothing.")
@target_options
@output_option()
def commit(target: Target, queue: str, group: str, partition: int, offset: int, dry_run: bool, output: str) -> None:
    """Acknowledge all messages of a partition below OFFSET, including those waiting to be retried. OFFSET is the first
    message that is not done.

    \b
    Examples:
      penstock group commit orders billing 3 42 --dry-run
      penstock group commit orders billing 3 42
    """
    facts: dict[str, object] = {"queue": queue, "group": group, "partition": partition, "dry_run": dry_run}
    if dry_run:
        before, after = _moved(target, queue, group, partition, offset)
        text = f"group {group} of queue {queue}: partition {partition} would be settled from {before} to {after}"
        print_done(output, text, **facts, before=before, after=after)
        return

    async def act(client: AsyncClient) -> int:
        return (await client.commit(queue, group, {partition: offset})).settled

    settled = on_server(target, act)
    print_done(output, f"group {group} of queue {queue}: {settled:,} messages settled", **facts, settled=settled)


def _moved(target: Target, queue: str, group: str, partition: int, offset: int) -> tuple[int, int]:
    """The first offset of the partition that is not settled, now and after a commit of `offset`."""

    async def act(client: AsyncClient) -> GroupDescription:
        return await client.group(queue, group)

    found = next((each for each in on_server(target, act).partitions if each.partition == partition), None)
    if found is None:
        raise NotThere(f"queue {queue!r} has no partition {partition}: `penstock queue describe {queue}` shows them")
    return found.floor, max(found.floor, min(offset, found.end))


@click.command()
@queue_argument
@group_argument
@target_options
@output_option()
def pause(target: Target, queue: str, group: str, output: str) -> None:
    """Stop delivering to a group until it is resumed. Other groups are not affected.

    \b
    Examples:
      penstock group pause orders billing
    """

    set_paused(target, output, queue, group, is_paused=True)


@click.command()
@queue_argument
@group_argument
@target_options
@output_option()
def resume(target: Target, queue: str, group: str, output: str) -> None:
    """Resume delivery to a paused group.

    \b
    Examples:
      penstock group resume orders billing
    """

    set_paused(target, output, queue, group, is_paused=False)


@click.command()
@queue_argument
@group_argument
@destructive
@target_options
@output_option()
def delete(target: Target, queue: str, group: str, yes: bool, dry_run: bool, output: str) -> None:
    """Delete a group and its position. The messages are kept.

    \b
    Examples:
      penstock group delete orders billing --dry-run
      penstock group delete orders billing --yes
    """
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Delete group {group!r} of queue {queue!r}?")

    async def act(client: AsyncClient) -> None:
        await client.delete_group(queue, group, dry_run)

    on_server(target, act)
    text = f"group {group} of queue {queue}: {'would be deleted' if dry_run else 'deleted'}"
    print_done(output, text, queue=queue, group=group, dry_run=dry_run)
