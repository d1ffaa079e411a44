"""`penstock queue browse`: messages, without consuming them."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import click

from penstock.cli.completions import queue_argument
from penstock.cli.connections import on_server
from penstock.cli.message.text import message_json
from penstock.cli.output import DATA_FORMATS, line_of, output_option
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.client.http.incoming import StoredMessage
from penstock.core.errors import InvalidArgument

_ID = re.compile(r".+@[0-9]+:([0-9]{1,9}):([0-9]{1,19})")
_PAGE = 500


@dataclass(frozen=True, slots=True)
class BrowseRequest:
    queue: str
    start: str
    partition: int | None = None
    limit: int | None = None
    topic_filter: str | None = None
    ids: tuple[str, ...] = ()


@click.command()
@queue_argument
@click.option(
    "--from",
    "start",
    metavar="START",
    default="earliest",
    show_default=True,
    help="Start at: earliest, an offset, a time (ISO 8601), or a duration back from now (1h).",
)
@click.option("--partition", metavar="N", type=click.IntRange(min=0), help="Only this partition.")
@click.option(
    "--filter", "topic_filter", metavar="FILTER", help="Only messages whose routing key matches this filter, like eu/#."
)
@click.option("--id", "ids", metavar="ID", multiple=True, help="Only the message with this id. Can be repeated.")
@click.option("-n", "--number", "limit", metavar="N", type=click.IntRange(min=0), help="At most N messages.")
@target_options
@output_option("text")
def browse(
    target: Target,
    queue: str,
    start: str,
    partition: int | None,
    topic_filter: str | None,
    ids: tuple[str, ...],
    limit: int | None,
    output: str,
) -> None:
    """Print messages without consuming them, oldest first.

    Text output is one value per line. JSON output is one object per line with id, partition, offset, timestamp, key,
    value and headers; a field that is not UTF-8 is base64-encoded and named like value_base64.

    \b
    Examples:
      penstock queue browse orders -n 10
      penstock queue browse orders --from 1h --filter 'eu/#' -o json
      penstock queue browse orders --id orders@1:3:42 -o json
    """
    request = BrowseRequest(queue, start, partition, limit, topic_filter, ids)

    async def act(client: AsyncClient) -> None:
        async for message in _messages(client, request):
            sys.stdout.buffer.write(rendered(message, output))

    on_server(target, act)
    sys.stdout.flush()


def rendered(message: StoredMessage, output: str) -> bytes:
    """With a newline behind it."""
    return line_of(message_json(message), output) if output in DATA_FORMATS else message.value + b"\n"


async def _messages(client: AsyncClient, request: BrowseRequest) -> AsyncIterator[StoredMessage]:
    if request.ids:
        for identity in request.ids:
            yield await _find(client, request.queue, identity)
        return
    left = request.limit
    if left == 0:
        return
    page = _PAGE if left is None else min(left, _PAGE)
    found = client.browse(
        request.queue, from_=request.start, partition=request.partition, filter=request.topic_filter, page=page
    )
    async for message in found:
        yield message
        left = None if left is None else left - 1
        if left == 0:
            return


async def _find(client: AsyncClient, queue: str, identity: str) -> StoredMessage:
    """By the place that its id tells."""
    match = _ID.fullmatch(identity)
    if match is None:
        raise click.BadParameter(f"{identity!r} is not the id of a message, like orders@1:3:42", param_hint="--id")
    partition, offset = int(match[1]), match[2]
    page = await client.messages(queue, f"offset:{offset}", None, partition, limit=1)
    found = next((message for message in page.messages if message.id == identity), None)
    if found is None:
        raise InvalidArgument(f"message {identity} is not there, or of another queue: it may have been removed")
    return found
