"""`penstock group reset` and `reset-offsets`."""

from __future__ import annotations

import click

from penstock.cli.completions import group_argument, queue_argument
from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.group.change import PLACES
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_table
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.codecs.http.administration import ResetReport
from penstock.core.descriptions import GroupDescription

_partition_option = click.option(
    "--partition",
    "partitions",
    metavar="N",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this partition. Can be repeated.",
)


@click.command()
@queue_argument
@group_argument
@click.option("--to", "place", metavar="START", required=True, help=PLACES[0].upper() + PLACES[1:])
@_partition_option
@destructive
@target_options
@output_option()
def reset(
    target: Target,
    queue: str,
    group: str,
    place: str,
    partitions: tuple[int, ...],
    yes: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Reset a group to a position. Its acknowledgements, deliveries in flight and retries are discarded.

    \b
    Examples:
      penstock group reset orders billing --to earliest --dry-run
      penstock group reset orders billing --to 2026-11-15T08:00:00Z
      penstock group reset orders billing --to 42 --partition 3
    """
    _reset(target, queue, group, place, partitions, yes, dry_run, output)


@click.command("reset-offsets")
@queue_argument
@group_argument
@click.option("--to-earliest", is_flag=True, help="Reset to the oldest message.")
@click.option("--to-latest", is_flag=True, help="Reset to the end: only new messages are delivered.")
@click.option("--to-time", metavar="TIME", help="Reset to a time (ISO 8601), or a duration back from now (1h).")
@click.option("--to-offset", metavar="N", type=click.IntRange(min=0), help="Reset to this offset.")
@_partition_option
@destructive
@target_options
@output_option()
def reset_offsets(
    target: Target,
    queue: str,
    group: str,
    to_earliest: bool,
    to_latest: bool,
    to_time: str | None,
    to_offset: int | None,
    partitions: tuple[int, ...],
    yes: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Reset a group to a position: `penstock group reset` with the options of Kafka's kafka-consumer-groups.

    \b
    Examples:
      penstock group reset-offsets orders billing --to-earliest
      penstock group reset-offsets orders billing --to-time 2h --dry-run
    """
    named = [
        "earliest" if to_earliest else None,
        "latest" if to_latest else None,
        to_time,
        None if to_offset is None else str(to_offset),
    ]
    places = [place for place in named if place is not None]
    if len(places) != 1:
        raise click.UsageError("give one of --to-earliest, --to-latest, --to-time and --to-offset")
    _reset(target, queue, group, places[0], partitions, yes, dry_run, output)


def _reset(
    target: Target,
    queue: str,
    group: str,
    place: str,
    partitions: tuple[int, ...],
    yes: bool,
    dry_run: bool,
    output: str,
) -> None:
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Reset group {group!r} of queue {queue!r} to {place}?")

    async def act(client: AsyncClient) -> tuple[ResetReport, GroupDescription]:
        report = await client.reset_group(queue, group, place, partitions or None, dry_run)
        return report, await client.group(queue, group)

    report, found = on_server(target, act)
    if output in DATA_FORMATS:
        print_data(report if dry_run else found, output)
        return
    if not dry_run:
        click.echo(f"group {group} of queue {found.queue}: reset to {place}, {found.lag:,} messages to consume")
        return
    click.echo(f"group {group} of queue {found.queue}: would be reset to {place}")
    columns = ["partition", "before", "after"]
    print_table(columns, [(each.partition, each.before, each.after) for each in report.partitions], numbers=columns)
