"""`penstock group create`, `reset`, `commit`, `pause`, `resume` and `delete`."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.broker.broker import Broker
from penstock.broker.describing import GroupDescription, describe_group
from penstock.broker.start import Start
from penstock.cli.arguments import directory_argument
from penstock.cli.opened import (
    group_argument,
    group_of,
    namespace_option,
    on_broker,
    queue_argument,
    refuse_unless_confirmed,
    yes_option,
)
from penstock.cli.output import output_option, print_json
from penstock.core.errors import GroupExists, InvalidArgument
from penstock.queues.names import parse_group_name

_PLACES = "earliest, latest, an offset, a time (ISO 8601), or a duration back from now (1h)."


@click.command()
@directory_argument
@queue_argument
@group_argument
@namespace_option
@click.option("--start", metavar="START", default="earliest", show_default=True, help=f"Where it begins: {_PLACES}")
@output_option("text", "json")
def create(directory: Path, queue: str, group: str, namespace: str, start: str, output: str) -> None:
    """Create a group that begins at a place. Without it, a group is made by its first consumer and begins at the
    earliest message.

    \b
    Examples:
      penstock group create ./data orders billing
      penstock group create ./data orders 'eu-audit|eu/#' --start latest
    """
    place = _start(start, "--start")

    async def act(broker: Broker) -> GroupDescription:
        found, key = broker.queue(queue, namespace), parse_group_name(group)
        if key in found.groups:
            raise GroupExists(found.name, group)
        return await describe_group(await broker.group(found, key, place), broker.now())

    made = on_broker(directory, act)
    if output == "json":
        print_json(made)
    else:
        click.echo(f"group {group} of queue {made.queue}: created, {made.lag:,} messages before it")


@click.command()
@directory_argument
@queue_argument
@group_argument
@namespace_option
@click.option("--to", "place", metavar="START", required=True, help=_PLACES[0].upper() + _PLACES[1:])
@click.option(
    "--partition", "partitions", metavar="N", type=click.IntRange(min=0), multiple=True, help="Only this one."
)
@output_option("text", "json")
def reset(
    directory: Path,
    queue: str,
    group: str,
    namespace: str,
    place: str,
    partitions: tuple[int, ...],
    output: str,
) -> None:
    """Let a group begin anew at a place: what it had settled, held or put off counts no more.

    \b
    Examples:
      penstock group reset ./data orders billing --to earliest
      penstock group reset ./data orders billing --to 2026-11-15T08:00:00Z
      penstock group reset ./data orders billing --to 42 --partition 3
    """
    start = _start(place, "--to")

    async def act(broker: Broker) -> GroupDescription:
        found = group_of(broker, queue, namespace, group)
        count = found.queue.settings.partitions
        if any(partition >= count for partition in partitions):
            raise InvalidArgument(f"queue {queue!r} has partitions 0 to {count - 1}, not {max(partitions)}")
        await broker.declaring.seek(found, start, partitions or None)
        return await describe_group(found, broker.now())

    found = on_broker(directory, act)
    if output == "json":
        print_json(found)
    else:
        click.echo(f"group {group} of queue {found.queue}: reset to {place}, {found.lag:,} messages before it")


@click.command()
@directory_argument
@queue_argument
@group_argument
@click.argument("partition", metavar="PARTITION", type=click.IntRange(min=0))
@click.argument("offset", metavar="OFFSET", type=click.IntRange(min=0))
@namespace_option
def commit(directory: Path, queue: str, group: str, partition: int, offset: int, namespace: str) -> None:
    """Settle all messages of a partition below OFFSET, those that wait to be retried included. OFFSET is the first
    that is not done.

    \b
    Examples:
      penstock group commit ./data orders billing 3 42
    """

    async def act(broker: Broker) -> int:
        found = group_of(broker, queue, namespace, group)
        unit = found.queue.units.get(partition)
        if unit is None:
            raise InvalidArgument(f"partition {partition} of queue {queue!r} has no messages: nothing to settle")
        return await broker.settling.commit(found, unit, offset)

    click.echo(f"group {group} of queue {queue}: {on_broker(directory, act):,} messages settled")


@click.command()
@directory_argument
@queue_argument
@group_argument
@namespace_option
def pause(directory: Path, queue: str, group: str, namespace: str) -> None:
    """Hand out no messages to a group until it is resumed. Other groups go on.

    \b
    Examples:
      penstock group pause ./data orders billing
    """
    _set_paused(directory, queue, group, namespace, is_paused=True)


@click.command()
@directory_argument
@queue_argument
@group_argument
@namespace_option
def resume(directory: Path, queue: str, group: str, namespace: str) -> None:
    """Hand out messages to a paused group again.

    \b
    Examples:
      penstock group resume ./data orders billing
    """
    _set_paused(directory, queue, group, namespace, is_paused=False)


def _set_paused(directory: Path, queue: str, group: str, namespace: str, *, is_paused: bool) -> None:
    async def act(broker: Broker) -> None:
        await broker.declaring.pause_group(group_of(broker, queue, namespace, group), is_paused)

    on_broker(directory, act)
    click.echo(f"group {group} of queue {queue}: {'paused' if is_paused else 'resumed'}")


@click.command()
@directory_argument
@queue_argument
@group_argument
@namespace_option
@yes_option
def delete(directory: Path, queue: str, group: str, namespace: str, yes: bool) -> None:
    """Delete a group and what it remembers. The messages stay.

    \b
    Examples:
      penstock group delete ./data orders billing --yes
    """
    refuse_unless_confirmed(yes, f"Delete group {group!r} of queue {queue!r}?")

    async def act(broker: Broker) -> None:
        await broker.declaring.delete_group(group_of(broker, queue, namespace, group))

    on_broker(directory, act)
    click.echo(f"group {group} of queue {queue}: deleted")


def _start(text: str, option: str) -> Start:
    try:
        return Start.parse(text)
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint=option) from error
