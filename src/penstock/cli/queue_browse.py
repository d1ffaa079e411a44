"""`penstock queue browse`: messages, without consuming them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from penstock.broker.broker import Broker
from penstock.broker.browsing import Browsed, find
from penstock.broker.browsing import browse as browse_queue
from penstock.broker.start import Start
from penstock.cli.arguments import directory_argument
from penstock.cli.message_text import message_json
from penstock.cli.opened import namespace_option, on_broker, queue_argument
from penstock.cli.output import output_option
from penstock.core.errors import InvalidArgument
from penstock.queues.names import parse_message_id


@dataclass(frozen=True, slots=True)
class BrowseRequest:
    queue: str
    namespace: str
    start: Start
    partition: int | None
    limit: int | None
    topic_filter: str | None
    ids: tuple[str, ...]


@click.command()
@directory_argument
@queue_argument
@namespace_option
@click.option(
    "--from",
    "start",
    metavar="START",
    default="earliest",
    show_default=True,
    help="earliest, an offset, a time (ISO 8601), or a duration back from now (1h).",
)
@click.option("--partition", metavar="N", type=click.IntRange(min=0), help="Only this one.")
@click.option("--filter", "topic_filter", metavar="FILTER", help="Only where the routing key matches, like eu/#.")
@click.option("--id", "ids", metavar="ID", multiple=True, help="Only the message of this id. May be repeated.")
@click.option("-n", "--number", "limit", metavar="N", type=click.IntRange(min=0), help="At most N messages.")
@output_option("text", "json")
def browse(
    directory: Path,
    queue: str,
    namespace: str,
    start: str,
    partition: int | None,
    topic_filter: str | None,
    ids: tuple[str, ...],
    limit: int | None,
    output: str,
) -> None:
    """Print messages without consuming them, oldest first.

    As text, each value is printed as it is, with a newline behind it. As JSON, each message is an object on a line of
    its own, with id, partition, offset, timestamp, key, headers; a field that is not UTF-8 is named like value_base64.

    \b
    Examples:
      penstock queue browse ./data orders -n 10
      penstock queue browse ./data orders --from 1h --filter 'eu/#' -o json
      penstock queue browse ./data orders --id orders@1:3:42 -o json
    """
    request = BrowseRequest(queue, namespace, _start(start), partition, limit, topic_filter, ids)

    async def act(broker: Broker) -> None:
        async for message in _messages(broker, request):
            line = msgspec.json.encode(message_json(message)) if output == "json" else message.row.value
            sys.stdout.buffer.write(line + b"\n")

    on_broker(directory, act)
    sys.stdout.flush()


async def _messages(broker: Broker, request: BrowseRequest) -> AsyncIterator[Browsed]:
    queue = broker.queue(request.queue, request.namespace)
    if request.ids:
        for text in request.ids:
            message = parse_message_id(text)
            if broker.find(message)[0] is not queue:
                raise InvalidArgument(f"message {text} is not of queue {queue.name!r}: name its own queue")
            yield await find(broker, message)
        return
    found = browse_queue(
        broker,
        queue,
        request.start,
        partition=request.partition,
        limit=request.limit,
        topic_filter=request.topic_filter,
    )
    async for each in found:
        yield each


def _start(text: str) -> Start:
    try:
        return Start.parse(text)
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint="--from") from error
