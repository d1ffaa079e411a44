"""Arguments whose names a shell completes: those of queues and groups come from the server that the command line names,
if it answers at once. Where nothing can be found, nothing is completed and nothing said."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.http.async_client import AsyncClient

Command = TypeVar("Command", bound=Callable[..., object])

# A person has pressed a key and waits.
_LONGEST_S = 1.0


def queue_argument(command: Command) -> Command:
    return click.argument("queue", metavar="QUEUE", shell_complete=complete_queue)(command)


def group_argument(command: Command) -> Command:
    return click.argument("group", metavar="GROUP", shell_complete=complete_group)(command)


def complete_queue(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    async def names(client: AsyncClient) -> list[str]:
        return [queue.name for queue in await client.queues()]

    return [name for name in _asked(context, names) if name.startswith(incomplete)]


def complete_group(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Of the queue that stands before it."""
    queue = context.params.get("queue")

    async def names(client: AsyncClient) -> list[str]:
        return [group.name for group in await client.groups(queue)]

    return [name for name in _asked(context, names) if name.startswith(incomplete)]


def _asked(context: click.Context, names: Callable[[AsyncClient], Awaitable[list[str]]]) -> list[str]:
    from dataclasses import replace

    from penstock.cli.connections import on_server
    from penstock.cli.target import TargetArguments, find_target
    from penstock.client.http.options import Retries

    said = {name: context.params.get(name) for name in TargetArguments.__dataclass_fields__}
    if said["data"] is not None:
        # Opening a directory is too much for a key.
        return []
    try:
        target = find_target(TargetArguments(**said), os.environ)
        options = replace(
            target.options, timeout_s=_LONGEST_S, connect_timeout_s=_LONGEST_S, retries=Retries(attempts=0)
        )
        return on_server(replace(target, options=options), names)
    except (PenstockError, OSError, click.ClickException):
        return []
