"""`penstock queue pause`, `resume`, `purge` and `delete`."""

from __future__ import annotations

import click

from penstock.cli.talking import destructive, on_server, queue_argument, refuse_unless_confirmed
from penstock.cli.target import Target, target_options
from penstock.client.http.answers import QueueInfo
from penstock.client.http.async_client import AsyncClient


@click.command()
@queue_argument
@target_options
def pause(target: Target, queue: str) -> None:
    """Hand out no messages of a queue, to any group, until it is resumed. It goes on taking messages in.

    \b
    Examples:
      penstock queue pause orders
    """

    async def act(client: AsyncClient) -> None:
        await client.pause(queue)

    on_server(target, act)
    click.echo(f"queue {queue}: paused")


@click.command()
@queue_argument
@target_options
def resume(target: Target, queue: str) -> None:
    """Hand out messages of a paused queue again.

    \b
    Examples:
      penstock queue resume orders
    """

    async def act(client: AsyncClient) -> None:
        await client.resume(queue)

    on_server(target, act)
    click.echo(f"queue {queue}: resumed")


@click.command()
@queue_argument
@destructive
@target_options
def purge(target: Target, queue: str, yes: bool, dry_run: bool) -> None:
    """Throw all messages of a queue away, for every group. The queue and its groups stay.

    \b
    Examples:
      penstock queue purge orders --dry-run
      penstock queue purge orders --yes
    """

    async def act(client: AsyncClient) -> int:
        return (await client.purge(queue, dry_run)).purged

    if dry_run:
        click.echo(f"queue {queue}: {on_server(target, act):,} messages would be purged")
        return
    refuse_unless_confirmed(target, yes, f"Throw all messages of queue {queue!r} away?")
    click.echo(f"queue {queue}: {on_server(target, act):,} messages purged")


@click.command()
@queue_argument
@destructive
@target_options
def delete(target: Target, queue: str, yes: bool, dry_run: bool) -> None:
    """Delete a queue with its messages and groups. Its dead letters are a queue of their own and stay.

    \b
    Examples:
      penstock queue delete orders --dry-run
      penstock queue delete orders --yes
    """
    if dry_run:
        _say_what_goes(target, queue)
        return
    refuse_unless_confirmed(target, yes, f"Delete queue {queue!r} with its messages and groups?")

    async def act(client: AsyncClient) -> None:
        await client.delete_queue(queue)

    on_server(target, act)
    click.echo(f"queue {queue}: deleted")


def _say_what_goes(target: Target, queue: str) -> None:
    async def act(client: AsyncClient) -> QueueInfo:
        return await client.queue(queue)

    found = on_server(target, act)
    click.echo(f"queue {queue}: would be deleted, with {found.messages:,} messages and {len(found.groups)} groups")
