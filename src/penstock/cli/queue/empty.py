"""`penstock queue pause`, `resume`, `purge` and `delete`."""

from __future__ import annotations

import click

from penstock.cli.completions import queue_argument
from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.delivery import set_paused
from penstock.cli.output import output_option, print_done
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.core.descriptions import QueueDescription


@click.command()
@queue_argument
@target_options
@output_option()
def pause(target: Target, queue: str, output: str) -> None:
    """Stop delivering messages of a queue to all groups until it is resumed. Publishing to it is still possible.

    \b
    Examples:
      penstock queue pause orders
    """
    set_paused(target, output, queue, is_paused=True)


@click.command()
@queue_argument
@target_options
@output_option()
def resume(target: Target, queue: str, output: str) -> None:
    """Resume delivery of a paused queue.

    \b
    Examples:
      penstock queue resume orders
    """
    set_paused(target, output, queue, is_paused=False)


@click.command()
@queue_argument
@destructive
@target_options
@output_option()
def purge(target: Target, queue: str, yes: bool, dry_run: bool, output: str) -> None:
    """Delete all messages of a queue, for every group. The queue and its groups are kept.

    \b
    Examples:
      penstock queue purge orders --dry-run
      penstock queue purge orders --yes
    """

    async def act(client: AsyncClient) -> int:
        return (await client.purge(queue, dry_run)).purged

    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Delete all messages of queue {queue!r}?")
    count = on_server(target, act)
    text = f"queue {queue}: {count:,} messages {'would be purged' if dry_run else 'purged'}"
    print_done(output, text, queue=queue, purged=count, dry_run=dry_run)


@click.command()
@queue_argument
@destructive
@target_options
@output_option()
def delete(target: Target, queue: str, yes: bool, dry_run: bool, output: str) -> None:
    """Delete a queue with its messages and groups. Its dead letters are in a queue of their own and are kept.

    \b
    Examples:
      penstock queue delete orders --dry-run
      penstock queue delete orders --yes
    """
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Delete queue {queue!r} with its messages and groups?")

    async def act(client: AsyncClient) -> QueueDescription:
        found = await client.queue(queue)
        await client.delete_queue(queue, dry_run)
        return found

    found = on_server(target, act)
    messages, groups = found.messages, [group.name for group in found.groups]
    what = f"{'would be deleted' if dry_run else 'deleted'}, with {messages:,} messages and {len(groups)} groups"
    print_done(output, f"queue {queue}: {what}", queue=queue, messages=messages, groups=groups, dry_run=dry_run)
