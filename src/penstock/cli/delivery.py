"""Delivery of a queue or a group, stopped and resumed."""

from __future__ import annotations

from penstock.cli.connections import on_server
from penstock.cli.output import print_done
from penstock.cli.target import Target
from penstock.client.http.async_client import AsyncClient


def set_paused(target: Target, output: str, queue: str, group: str | None = None, *, is_paused: bool) -> None:
    """Of the whole queue, or of one of its groups."""

    async def act(client: AsyncClient) -> None:
        await (client.pause if is_paused else client.resume)(queue, group)

    on_server(target, act)
    facts: dict[str, object] = {"queue": queue} if group is None else {"queue": queue, "group": group}
    what = f"queue {queue}" if group is None else f"group {group} of queue {queue}"
    print_done(output, f"{what}: {'paused' if is_paused else 'resumed'}", **facts, is_paused=is_paused)
